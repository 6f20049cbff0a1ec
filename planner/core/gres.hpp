// Slurm's text for generic resources, as node and job records carry it.
#pragma once

#include <string>
#include <vector>

namespace espalier {

struct GpuGres {
  // "h100"; empty when untyped; the first typed entry's when there are several.
  std::string type;
  int count = 0;             // sum over all gpu entries
  std::vector<int> indices;  // from "(IDX:0-1,3)", ascending; empty when the text has none
  bool operator==(const GpuGres&) const = default;
};

// Understands "gpu:h100:4(S:0-1)", "gpu:4", "gpu:h100:2(IDX:0,2-3),gpu:a100:1(IDX:7)", "(null)" and
// "". Skips entries of other kinds than gpu. Throws Error when it cannot read a count or an index
// list.
GpuGres parse_gpu_gres(const std::string& text);

}  // namespace espalier
