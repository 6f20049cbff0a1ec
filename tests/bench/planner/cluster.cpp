#include "tests/bench/planner/cluster.hpp"

#include <fstream>

#include "planner/core/fields.hpp"
#include "tests/bench/planner/measured_plan.hpp"

namespace espalier::bench {

Hardware hardware_of(const ClusterBandwidths& bandwidths) {
  Hardware hardware;
  hardware.types.push_back({"gpu", 1, 80e9, 0});
  hardware.v0 = bandwidths.saturation_low;
  hardware.v_sat = bandwidths.saturation_high;
  for (int m = 0; m < kKinds; ++m)
    hardware.kinds.push_back({m == 0 ? bandwidths.tp : m * bandwidths.nic, bandwidths.dp, bandwidths.nic, 0});
  return hardware;
}

ClusterBandwidths read_cluster(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(path + ": cannot be read");
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw Error(path + ": is not JSON: " + error.what());
  }
  ClusterBandwidths result;
  const Fields fields(json, path, {"tp", "saturation_low", "saturation_high", "dp", "nic", "flops"});
  const auto positive = [&](const char* name, double& value) {
    fields.get(name, value);
    if (!(value > 0)) throw Error(path + "." + name + ": must be positive");
  };
  positive("tp", result.tp);
  positive("saturation_low", result.saturation_low);
  positive("saturation_high", result.saturation_high);
  positive("dp", result.dp);
  positive("nic", result.nic);
  fields.get("flops", result.flops);
  if (!(result.flops >= 0)) throw Error(path + ".flops: must not be negative");
  return result;
}

void write_cluster(const std::string& path, const ClusterBandwidths& bandwidths) {
  std::ofstream file(path);
  file << nlohmann::json{{"tp", bandwidths.tp},
                         {"saturation_low", bandwidths.saturation_low},
                         {"saturation_high", bandwidths.saturation_high},
                         {"dp", bandwidths.dp},
                         {"nic", bandwidths.nic},
                         {"flops", bandwidths.flops}}
              .dump(2)
       << "\n";
  if (!file.flush()) throw Error(path + ": cannot be written");
}

}  // namespace espalier::bench
