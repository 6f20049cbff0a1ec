// Texts in Slurm's records that users write: generic resources, and constraints. The lines of the input are the texts
// of one job.
#include <algorithm>
#include <array>
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/feature_expression.hpp"
#include "planner/core/gres.hpp"
#include "planner/daemon/gpu_request.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void slurm_text(std::string_view input) {
  const std::string text(input);
  for (const std::string& type : gpu_types(text)) is_gpu_slice(type);
  try {
    const GpuGres gres = parse_gpu_gres(text);
    require(gres.count >= 0);
    for (const int index : gres.indices) require(index >= 0);
    int sum = 0;
    for (const auto& [type, count] : gpu_counts(text)) {
      require(count > 0);
      sum += count;
    }
    require(sum == gres.count);
    if (const auto type = lent_type(text)) require(!is_gpu_slice(*type));
  } catch (const Error&) {
  }
  require(may_be_on("", {}));
  may_be_on(text, {"a", "b", "rack1"});
  fits_one_node(text);

  std::array<std::string, 4> lines;
  for (std::size_t begin = 0, line = 0; begin < text.size() && line < lines.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines[line] = text.substr(begin, end - begin);
    begin = end + 1;
  }
  const int nodes = static_cast<int>(text.size() % 7);
  require(requested_gpus({lines[0], lines[1], lines[2], lines[3], nodes, 1 << 30, 8}) >= 0);
}

}  // namespace espalier::fuzz
