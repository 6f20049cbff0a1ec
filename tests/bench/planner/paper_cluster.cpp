#include "tests/bench/planner/paper_cluster.hpp"

namespace espalier::bench {

Site paper_cluster(int nodes, int rack_nodes) {
  Site site;
  // NVIDIA H100 SXM data sheet: 989 TFLOPS dense BF16, 80 GB, 3.35 TB/s.
  site.hardware.types.push_back({"h100", 989, 80e9, 3.35e9});
  site.hardware.kinds.push_back({360e6, 360e6, 42.5e6, 8});
  for (int n = 0; n < nodes; ++n) {
    char name[16], rack[16];
    std::snprintf(name, sizeof name, "n%04d", n);
    std::snprintf(rack, sizeof rack, "rack%03d", n / rack_nodes);
    site.topology.add_node(name, 0, std::vector<std::int16_t>(8, 0), {"spine", rack});
  }
  return site;
}

}  // namespace espalier::bench
