// Records of nodes, waiting jobs, the configuration and the planner itself.
#include <cmath>
#include <map>

#include "planner/cli/records.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::cli {

Record node_record(const Json& node) {
  std::map<std::uint32_t, std::vector<int>> by_owner;
  const auto owners = node.at("gpu_owner").get<std::vector<std::uint32_t>>();
  for (std::size_t i = 0; i < owners.size(); ++i) by_owner[owners[i]].push_back(static_cast<int>(i));
  std::string held;
  for (const auto& [owner, gpus] : by_owner) {
    if (owner == 0) continue;
    const std::string name = owner == static_cast<std::uint32_t>(-1) ? "unknown" : std::to_string(owner);
    held += (held.empty() ? "" : ",") + gpu_list(name, gpus);
  }
  std::string switches;
  for (const Json& name : node.at("switches")) switches += (switches.empty() ? "" : ".") + name.get<std::string>();
  Record record{
      {{"NodeName", node.at("name").get<std::string>()},
       {"GPUType", text_or_null(node.at("gpu_type").get<std::string>())},
       {"GPUs", std::to_string(owners.size())},
       {"IdleGPUs", std::to_string(node.value("idle_gpus", 0))},
       {"Usable", node.at("usable").get<bool>() ? "Yes" : "No"}},
      {{"HeldGPUs", text_or_null(held)},
       {"FreeCPUs", std::to_string(node.at("free_cpus").get<int>())},
       {"FreeMemory", std::to_string(node.at("free_memory_mb").get<long>()) + "M"}},
      {{"Switches", text_or_null(switches)}, {"TopologyKnown", node.value("topology_known", false) ? "Yes" : "No"}},
  };
  if (node.contains("slow")) {
    const Json& slow = node.at("slow");
    const int jobs = slow.at("jobs");
    record.push_back(
        {{"Slow", "computes at " + std::to_string(std::lround(100 * slow.at("share").get<double>())) +
                      "% of its like, as " + std::to_string(jobs) + (jobs == 1 ? " job measured" : " jobs measured")}});
  }
  if (node.contains("slow_links")) {
    const Json& slow = node.at("slow_links");
    const int jobs = slow.at("jobs");
    record.push_back(
        {{"SlowLinks", "to " + fold_hosts(slow.at("to").get<std::vector<std::string>>()) + " at " +
                           std::to_string(std::lround(100 * slow.at("share").get<double>())) + "% of their like, as " +
                           std::to_string(jobs) + (jobs == 1 ? " job measured" : " jobs measured")}});
  }
  if (const int jobs = node.value("unfit_for", 0); jobs > 0)
    record.push_back({{"Unfit", "workers of " + std::to_string(jobs) + (jobs == 1 ? " job" : " jobs") +
                                    " died there again and again within the last hour, or its GPUs have errors"}});
  if (const std::string fault = node.value("unhealthy", ""); !fault.empty()) record.push_back({{"Health", fault}});
  return record;
}

Record waiting_record(const Json& waiting) {
  Record record{{{"WaitingJobId", std::to_string(waiting.at("id").get<std::uint32_t>())},
                 {"GPUs", std::to_string(waiting.at("gpus").get<int>())},
                 {"Nodes", std::to_string(waiting.at("nodes").get<int>())},
                 {"Priority", std::to_string(std::lround(waiting.at("priority").get<double>()))},
                 {"OnlyNodes", text_or_null(waiting.at("only_nodes").get<std::string>())}}};
  if (const int tasks = waiting.value("tasks", 1); tasks > 1) record.push_back({{"Tasks", std::to_string(tasks)}});
  return record;
}

Record config_record(const Json& config) {
  Record record;
  for (const auto& [key, value] : config.items()) {
    std::string text = value.is_string() ? text_or_null(value.get<std::string>()) : value.dump();
    record.push_back({{key, std::move(text)}});
  }
  return record;
}

Record ping_record(const Json& ping) {
  return {{{"Planner", "up"},
           {"Version", ping.at("version").get<std::string>()},
           {"Pid", std::to_string(ping.at("pid").get<long>())},
           {"Uptime", std::to_string(std::lround(ping.at("uptime").get<double>())) + "s"},
           {"Jobs", std::to_string(ping.at("jobs").get<int>())},
           {"Shadow", ping.at("shadow").get<bool>() ? "Yes" : "No"},
           {"Slurm", ping.at("slurm").get<std::string>()}}};
}

}  // namespace espalier::cli
