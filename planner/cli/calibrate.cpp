// `espalier calibrate`: chooses nodes, has them measured by a Slurm job, and writes what it found.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <ctime>

#include "planner/cli/calibrate_arguments.hpp"
#include "planner/cli/calibrate_job.hpp"
#include "planner/cli/calibrate_report.hpp"
#include "planner/cli/commands.hpp"
#include "planner/cli/live_cluster.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/probe/choose_nodes.hpp"
#include "planner/core/topology/from_view.hpp"

namespace espalier::cli {
namespace {

constexpr int kStartSeconds = 60;  // of the job's minutes, for the ranks' start and end

std::string trainer_beside() {
  char own[PATH_MAX] = "";
  const ssize_t size = ::readlink("/proc/self/exe", own, sizeof own - 1);
  const std::string self(own, size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::string trainer = self.substr(0, self.rfind('/') + 1) + "espalier-train";
  return ::access((trainer + "-cuda").c_str(), X_OK) == 0 ? trainer + "-cuda" : trainer;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

struct Target {
  Topology topology;
  std::map<std::string, std::string> types;  // by node, of all nodes with GPUs
  CalibrateJob job;
  std::size_t idle = 0;
};

Target choose(const CalibrateArguments& arguments, const wire::Config& config) {
  const PlanCluster cluster = read_live_cluster();
  Target target;
  target.topology = site_from_view(cluster.view, {}).site.topology;
  std::vector<ProbeNode> nodes;
  for (const NodeView& node : cluster.view.nodes) {
    nodes.push_back(
        {node.name, node.gpu_type, static_cast<int>(node.gpu_owner.size()), cluster.idle.contains(node.name)});
    if (!node.gpu_owner.empty()) target.types[node.name] = node.gpu_type;
  }
  CalibrateJob& job = target.job;
  job.nodes = arguments.nodes.empty() ? choose_nodes(nodes, target.topology) : expand_hosts(arguments.nodes.c_str());
  if (job.nodes.empty()) throw Error("--nodes " + arguments.nodes + ": is no list of nodes; write n[1-8] or n1,n2");
  std::sort(job.nodes.begin(), job.nodes.end());
  job.nodes.erase(std::unique(job.nodes.begin(), job.nodes.end()), job.nodes.end());
  job.gpus = INT_MAX;
  for (const std::string& name : job.nodes) {
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const ProbeNode& n) { return n.name == name; });
    if (node == nodes.end()) throw Error("--nodes: " + name + ": Slurm has no such node with GPUs; see sinfo");
    job.gpus = std::min(job.gpus, node->gpus);
    if (node->idle) ++target.idle;
  }
  job.minutes = arguments.minutes;
  job.wait_seconds = arguments.wait_seconds;
  job.partition = arguments.partition;
  job.program = arguments.program.empty() ? trainer_beside() : arguments.program;
  job.network = config.network;
  job.mpi = arguments.mpi;
  job.extra = arguments.extra;
  job.request.pairs = choose_pairs(job.nodes, target.topology);
  job.request.seconds = std::max(30, 60 * job.minutes - kStartSeconds);
  return target;
}

std::string plan_text(const Target& target) {
  const CalibrateJob& job = target.job;
  std::string text = "Nodes " + fold_hosts(job.nodes) + ", " + counted(job.gpus, "GPU") + " of each; " +
                     std::to_string(target.idle) + " of " + std::to_string(job.nodes.size()) +
                     " nodes are idle now.\nPairs:";
  for (const auto& [a, b] : job.request.pairs) text += " " + a + "-" + b;
  text += "\nJob:";
  for (const std::string& word : salloc_command(job)) {
    if (word == "bash") break;
    text += " " + word;
  }
  return text + "\n";
}

}  // namespace

std::string calibrate(const std::vector<std::string>& words) {
  std::string help;
  const auto arguments = parse_calibrate(words, help);
  if (!arguments) return help;
  const wire::Config config = wire::load_config(arguments->config);
  const Target target = choose(*arguments, config);
  if (arguments->dry_run) return plan_text(target);
  std::fprintf(stderr, "espalier: calibrate: measuring %s; this takes at most %d minutes once Slurm has given them\n",
               fold_hosts(target.job.nodes).c_str(), target.job.minutes);
  const ProbeReport report = run_calibrate_job(target.job);
  const Findings findings = findings_of(report, target.topology, target.types);
  const std::string toml = to_toml(findings, now_text(), fold_hosts(target.job.nodes));
  std::string text = calibrate_table(findings);
  if (arguments->json) {
    Json json = calibrate_json(findings, report);
    json["toml"] = toml;
    text = json.dump(2) + "\n";
  }
  const std::string path = arguments->output.empty() ? wire::calibrated_path(config) : arguments->output;
  const std::string both = arguments->json ? text : text + "\n" + toml;
  if (path == "-") return both;
  const bool allowed = !arguments->output.empty() || ::access(config.state_dir.c_str(), W_OK) == 0;
  if (!allowed) {
    std::fprintf(stderr,
                 "espalier: calibrate: %s cannot be written from here: root or SlurmUser puts these tables there, on "
                 "espalierd's host, or into espalier.toml\n",
                 path.c_str());
    return both;
  }
  replace_file(path, toml);
  std::fprintf(stderr, "espalier: calibrate: written to %s%s\n", path.c_str(),
               arguments->output.empty() ? "; espalierd reads it at SIGHUP: systemctl reload espalierd" : "");
  return text;
}

}  // namespace espalier::cli
