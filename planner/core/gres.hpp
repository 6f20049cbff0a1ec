// Slurm's text for generic resources, as node and job records carry it.
#pragma once

#include <map>
#include <optional>
#include <set>
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

// The types that the text names, of a node or of a request: "gpu:h100:4(S:0-1),gpu:a100:1", "gres:gpu:h100:4",
// "gres/gpu:h100=4", "gres:gpu:h100". Empty: untyped GPUs, or none.
std::set<std::string> gpu_types(const std::string& text);

// How many GPUs of each type the text counts, of a node: {"h100", 4}. Untyped GPUs have the type "". Throws Error as
// parse_gpu_gres does.
std::map<std::string, int> gpu_counts(const std::string& text);

// Whether a type names a slice of a GPU, as NVIDIA's MIG and Slurm's AutoDetect do: "a100_1g.5gb", "1g.10gb".
bool is_gpu_slice(const std::string& type);

// GPUs that jobs share: an entry "shard" or "mps" of what a node has in use.
struct SharedGres {
  int used = 0;             // in all
  std::vector<int> by_gpu;  // of each GPU; empty: Slurm does not tell
  bool operator==(const SharedGres&) const = default;
};

// "gpu:h100:0(IDX:N/A),shard:h100:5(4/8,1/8)", as newer Slurms write it, or "shard:5". Throws Error as parse_gpu_gres
// does.
std::vector<SharedGres> shared_gres(const std::string& text);

// The type whose GPUs of a node are lent: of several, the one with the most GPUs, then the first by name. Slices are
// never lent. nullopt: none is. `gres`: the node's text.
std::optional<std::string> lent_type(const std::string& gres);

}  // namespace espalier
