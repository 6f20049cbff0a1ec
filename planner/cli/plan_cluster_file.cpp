#include "planner/cli/plan_cluster_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "planner/cli/live_cluster.hpp"
#include "planner/cli/preset_clusters.hpp"
#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/open_input.hpp"
#include "planner/wire/hardware_keys.hpp"

namespace espalier::cli {
namespace {

constexpr const char* kManual = "espalier-plan(1)";
constexpr std::size_t kMostNodes = 65536;

// libslurm takes "n[1-" for a name. A real name contains none of these characters.
bool host_names(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (name.empty() || name.find_first_of("[]() ,") != std::string::npos) return false;
  return !names.empty();
}

class ClusterFile {
 public:
  explicit ClusterFile(std::string path) : path_(std::move(path)) { cluster_.name = path_; }

  PlanCluster read() {
    const toml::value root = wire::parse_toml_file(path_);
    for (const auto& [section, content] : root.as_table()) {
      if (wire::read_hardware_section(path_, section, content, cluster_.hardware, kManual)) continue;
      if (section == "redeploy") {
        read_redeploy(content);
        continue;
      }
      if (section == "slurm") {
        read_delays(content);
        continue;
      }
      if (section != "nodes") wire::fail_toml(path_, content, section, std::string("unknown table; see ") + kManual);
      if (!content.is_array()) wire::fail_toml(path_, content, section, "must be a list of tables; write [[nodes]]");
      for (const toml::value& nodes : content.as_array()) add_nodes(nodes);
    }
    if (cluster_.view.nodes.empty()) throw Error(path_ + ": nodes: missing; describe the nodes by [[nodes]]");
    wire::check_hardware(path_, cluster_.hardware);
    for (const auto& [type, figures] : cluster_.hardware.gpus) note_unless_used(type);
    return std::move(cluster_);
  }

 private:
  // Types are told apart as written: h100 is not H100.
  void note_unless_used(const std::string& type) {
    const auto& nodes = cluster_.view.nodes;
    if (std::none_of(nodes.begin(), nodes.end(), [&](const NodeView& node) { return node.gpu_type == type; }))
      cluster_.notes.push_back("[gpu." + type + "]: not used; no node has gpu_type = \"" + type + "\"");
  }

  void add_nodes(const toml::value& table) {
    std::string names, hwloc;
    int gpus = 0;
    NodeView node;
    wire::read_toml_table(path_, "nodes", table,
                          {{"name", wire::toml_text(path_, "nodes.name", names, false)},
                           {"gpus", wire::toml_whole(path_, "nodes.gpus", gpus, 1, 256)},
                           {"gpu_type", wire::toml_text(path_, "nodes.gpu_type", node.gpu_type, false)},
                           {"switches", wire::toml_texts(path_, "nodes.switches", node.switches)},
                           {"hwloc", wire::toml_text(path_, "nodes.hwloc", hwloc, false)}},
                          kManual);
    const auto required = [&](const char* key) {
      if (table.as_table().count(key) == 0)
        wire::fail_toml(path_, table, std::string("nodes.") + key, "missing; nodes need name, gpus and gpu_type");
    };
    for (const char* key : {"name", "gpus", "gpu_type"}) required(key);
    const toml::value& name_value = table.as_table().at("name");
    const auto expanded = expand_hosts(names.c_str());
    if (!host_names(expanded))
      wire::fail_toml(path_, name_value, "nodes.name", "\"" + names + "\" is no list of hosts; write n1 or n[1-8]");
    if (cluster_.view.nodes.size() + expanded.size() > kMostNodes)
      wire::fail_toml(path_, name_value, "nodes.name", "more than " + std::to_string(kMostNodes) + " nodes");
    std::optional<NodeHardware> report;
    if (!hwloc.empty()) report = read_hwloc(table.as_table().at("hwloc"), hwloc);
    node.gpu_owner.assign(static_cast<std::size_t>(gpus), 0);
    for (const std::string& name : expanded) {
      if (!seen_.insert(name).second) wire::fail_toml(path_, name_value, "nodes.name", "node " + name + " named twice");
      node.name = name;
      cluster_.view.nodes.push_back(node);
      if (report) cluster_.reports[name] = *report;
    }
  }

  void read_delays(const toml::value& table) {
    sim::Delays& delays = cluster_.delays;
    sim::SlurmQueueOptions& queue = cluster_.slurm;
    std::string preempt;
    const auto real = [&](const char* key, double& out, double low, double high) {
      return std::pair(std::string(key), wire::toml_real(path_, std::string("slurm.") + key, out, low, high));
    };
    const auto seconds = [&](const char* key, double& out) { return real(key, out, 0, 1e6); };
    // The limits of slurm.conf(5), where it gives one.
    wire::read_toml_table(
        path_, "slurm", table,
        {seconds("queue_seconds", delays.queue_seconds),
         seconds("batch_sched_seconds", delays.batch_sched_seconds),
         seconds("release_seconds", delays.release_seconds),
         seconds("acquire_seconds", delays.acquire_seconds),
         {"preempt", wire::toml_one_of(path_, "slurm.preempt", preempt, {"none", "oldest", "youngest"})},
         seconds("launch_seconds", delays.launch_seconds),
         seconds("end_seconds", delays.end_seconds),
         real("priority_weight_age", queue.weight_age, 0, 4294967295.0),
         real("priority_weight_job_size", queue.weight_job_size, 0, 4294967295.0),
         real("priority_max_age_seconds", queue.max_age_seconds, 1, 1e9),
         {"priority_favor_small", wire::toml_truth(path_, "slurm.priority_favor_small", queue.favor_small)},
         real("bf_interval", queue.backfill_interval_seconds, 1, 10800),
         {"bf_max_job_test", wire::toml_whole(path_, "slurm.bf_max_job_test", queue.most_backfill_jobs, 1, 1000000)}},
        kManual);
    if (preempt == "none") delays.preempt = sim::Preemption::none;
    if (preempt == "oldest") delays.preempt = sim::Preemption::oldest;
    if (preempt == "youngest") delays.preempt = sim::Preemption::youngest;
  }

  // Reads the cost of redeployments: assumptions of the model, or measurements of a method.
  void read_redeploy(const toml::value& table) {
    sim::RedeployOptions& cost = cluster_.redeploy;
    const auto real = [&](const char* key, double& out, double low) {
      return std::pair(std::string(key), wire::toml_real(path_, std::string("redeploy.") + key, out, low, 1e6));
    };
    wire::TomlKeys known{
        real("profile_seconds", cost.profile_seconds, 0), real("profile_steps", cost.profile_steps, 0),
        real("settle_steps", cost.settle_steps, 0),       real("start_seconds", cost.start_seconds, 0),
        real("storage_gb_s", cost.storage_gb_s, 1e-3),    real("local_gb_s", cost.local_gb_s, 1e-3),
        real("switch_seconds", cost.switch_seconds, 0),   real("adopt_switch_seconds", cost.adopt_switch_seconds, 0)};
    for (const auto& [key, out] : {std::pair("search_seconds_per_gpu", &cost.search_seconds_per_gpu),
                                   std::pair("search_most_seconds", &cost.search_most_seconds),
                                   std::pair("pruned_seconds_per_gpu", &cost.pruned_seconds_per_gpu),
                                   std::pair("pruned_most_seconds", &cost.pruned_most_seconds)})
      known.insert(real(key, *out, 0));
    known["network_share"] = wire::toml_real(path_, "redeploy.network_share", cost.network_share, 0.01, 1);
    for (const sim::Method method :
         {sim::Method::checkpoint, sim::Method::overlap, sim::Method::device, sim::Method::adopt}) {
      const std::string name = sim::to_string(method);
      known[name] = [this, method, name](const toml::value& given) {
        sim::MeasuredCost& measured = cluster_.redeploy.measured[method];
        const std::string prefix = "redeploy." + name;
        const auto seconds = [&](const char* key, double& out) {
          return std::pair(std::string(key), wire::toml_real(path_, prefix + "." + key, out, 0, 1e6));
        };
        wire::read_toml_table(path_, prefix, given,
                              {seconds("overlap_seconds", measured.overlap_seconds),
                               seconds("overlap_seconds_per_gpu", measured.overlap_seconds_per_gpu),
                               seconds("pause_seconds", measured.pause_seconds)},
                              kManual);
        for (const char* key : {"overlap_seconds", "pause_seconds"})
          if (given.as_table().count(key) == 0)
            wire::fail_toml(path_, given, prefix + "." + key, "missing; a measured method needs both");
      };
    }
    wire::read_toml_table(path_, "redeploy", table, known, kManual);
  }

  NodeHardware read_hwloc(const toml::value& at, const std::string& relative) const {
    const std::string file = (std::filesystem::path(path_).parent_path() / relative).string();
    std::ifstream in = open_input(file);
    if (!in) wire::fail_toml(path_, at, "nodes.hwloc", file + " cannot be read");
    try {
      return read_node_xml(std::string(std::istreambuf_iterator<char>(in), {}));
    } catch (const Error& error) {
      wire::fail_toml(path_, at, "nodes.hwloc", file + ": " + error.what());
    }
  }

  const std::string path_;
  PlanCluster cluster_;
  std::set<std::string> seen_;
};

}  // namespace

PlanCluster read_plan_cluster(const std::string& name_or_path) {
  if (auto preset = preset_cluster(name_or_path)) return std::move(*preset);
  if (name_or_path == "slurm") return read_live_cluster("or describe the cluster in a file");
  if (!std::filesystem::exists(name_or_path))
    throw Error(name_or_path + ": no such cluster; give a file, " + preset_names() + " or slurm");
  return ClusterFile(name_or_path).read();
}

}  // namespace espalier::cli
