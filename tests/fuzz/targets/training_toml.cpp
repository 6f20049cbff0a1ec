// The configuration of a training. The first line is an override of the command line, if it has an equals sign in its
// first word.
#include <string>

#include "planner/core/error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "torchrt/config.hpp"

namespace espalier::fuzz {

void training_toml(std::string_view input) {
  std::vector<std::string> overrides;
  if (input.starts_with("--set ")) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    overrides.emplace_back(input.substr(6, end - 6));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  const MemoryFile file(input);
  try {
    const torchrt::Config config = torchrt::load_config(file.path(), overrides);
    require(config.training.steps >= 1 && config.training.global_batch >= 1 && config.model.layers >= 1);
    torchrt::model_shape(config);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
