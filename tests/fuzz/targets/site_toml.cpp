// espalier.toml, and the file that `espalier calibrate` writes.
#include "planner/core/error.hpp"
#include "planner/wire/config.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void site_toml(std::string_view input) {
  const MemoryFile file(input);
  try {
    const wire::Config config = wire::load_config(file.path());
    require(config.planner_port > 0 && config.max_gpus > 0 && config.poll_seconds > 0);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
