#include "launcher/slurm/absent_keeper.hpp"

#include <string_view>

namespace espalier::launcher {

std::string place_in(const std::vector<std::string>& environment) {
  constexpr std::string_view kName = "ESPALIER_LAUNCHER=";
  for (const std::string& variable : environment)
    if (variable.starts_with(kName)) return variable.substr(kName.size());
  return "";
}

std::string absent_keeper(JobId job, const std::string& node, const std::string& place, int seconds) {
  return "Slurm started job " + std::to_string(job) + " on " + node +
         ", and its keeper did not reach this launcher at " + place + " within " + std::to_string(seconds) +
         " s: let nodes connect to TCP ports 20000 to 31999 of each other, and name a network between them in "
         "launch.network of espalier.toml";
}

std::string configuring_node(JobId job, const std::string& node, int seconds) {
  return "Slurm gave job " + std::to_string(job) + " its GPUs on " + node + ", and after " + std::to_string(seconds) +
         " s that node was still booting, or a Prolog ran on it";
}

}  // namespace espalier::launcher
