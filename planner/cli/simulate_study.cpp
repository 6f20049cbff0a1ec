#include "planner/cli/simulate_study.hpp"

#include <algorithm>
#include <chrono>

#include "planner/cli/plan_cluster_file.hpp"
#include "planner/cli/simulate_model_table.hpp"
#include "planner/cli/simulate_trace_file.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/core/topology/from_view.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/profile_kinds.hpp"
#include "planner/wire/scheduler_options.hpp"

namespace espalier::cli {
namespace {

constexpr double kHour = 3600;

// The cluster as policies see it, with nodes sorted by name as in the daemon.
struct SimulatedCluster {
  std::shared_ptr<const Site> site;
  ClusterView view;
  sim::RedeployOptions redeploy;
  sim::Delays delays;
  sim::SlurmQueueOptions slurm;
};

SimulatedCluster load_cluster(const SimulateArguments& arguments, Study& study) {
  PlanCluster read = read_plan_cluster(arguments.cluster);
  std::sort(read.view.nodes.begin(), read.view.nodes.end(),
            [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
  SiteView seen = site_from_view(read.view, read.reports, read.hardware);
  for (NodeKind& kind : seen.site.hardware.kinds) kind.nic_bandwidth *= arguments.bandwidth;
  study.cluster = read.name;
  study.nodes = static_cast<int>(read.view.nodes.size());
  for (const NodeView& node : read.view.nodes) study.gpus += static_cast<int>(node.gpu_owner.size());
  study.notes = std::move(seen.notes);
  study.notes.insert(study.notes.end(), read.notes.begin(), read.notes.end());
  return {std::make_shared<const Site>(std::move(seen.site)), std::move(read.view), std::move(read.redeploy),
          read.delays, read.slurm};
}

sim::Trace load_trace(const SimulateArguments& arguments) {
  const std::string text = read_maybe_gzipped(arguments.trace);
  try {
    const auto format = arguments.format.empty() ? sim::detect_trace_format(text) : sim::trace_format(arguments.format);
    return sim::parse_trace(text, format);
  } catch (const Error& error) {
    throw Error(arguments.trace + ": " + error.what());
  }
}

constexpr std::size_t kToldDamage = 3;

// "2 were left out (no GPUs, not ended, or steps) and 5 are damaged (line 2: ...)". Empty: no row was skipped.
std::string skipped_rows(const sim::Trace& trace) {
  std::string text;
  if (trace.left_out > 0)
    text = std::to_string(trace.left_out) + (trace.left_out == 1 ? " was" : " were") +
           " left out (no GPUs, not ended, or steps)";
  if (trace.damaged.empty()) return text;
  text += (text.empty() ? "" : " and ") + std::to_string(trace.damaged.size()) +
          (trace.damaged.size() == 1 ? " is" : " are") + " damaged (";
  for (std::size_t i = 0; i < std::min(trace.damaged.size(), kToldDamage); ++i)
    text += (i == 0 ? "line " : "; line ") + std::to_string(trace.damaged[i].line) + ": " + trace.damaged[i].why;
  return text + (trace.damaged.size() > kToldDamage ? "; ...)" : ")");
}

// What the trace lacks shows only in the rows that were skipped.
sim::Workload load_workload(const SimulateArguments& arguments, const Study& study,
                            const sim::WorkloadOptions& options) {
  const std::string skipped = skipped_rows(study.trace);
  if (study.trace.jobs.empty())
    throw Error(arguments.trace + ": holds no job to simulate" +
                (skipped.empty() ? "; it has no rows" : "; of its rows " + skipped));
  try {
    return sim::make_workload(study.trace, study.kinds, study.gpus, options);
  } catch (const Error& error) {
    if (skipped.empty()) throw;
    throw Error(std::string(error.what()) + "; of the trace's rows " + skipped);
  }
}

std::vector<sim::JobKind> load_kinds(const SimulateArguments& arguments, const SimulatedCluster& cluster,
                                     std::vector<std::string>& notes) {
  if (!arguments.jobs.empty()) return read_model_table(arguments.jobs, *cluster.site, cluster.view, notes);
  if (arguments.profile.empty()) return sim::paper_kinds(*cluster.site, cluster.view, &notes);
  try {
    return sim::profile_kinds(read_maybe_gzipped(arguments.profile), *cluster.site, cluster.view);
  } catch (const Error& error) {
    throw Error(arguments.profile + ": " + error.what());
  }
}

// Options that the command line leaves open follow from the trace. Jobs of public traces are
// sampled and mapped at random. A site's own jobs are all taken and keep their GPUs.
sim::WorkloadOptions workload_options(const SimulateArguments& arguments, const sim::Trace& trace) {
  sim::WorkloadOptions options = arguments.workload;
  options.trace_gpus = arguments.trace_gpus.value_or(trace.cluster_gpus);
  options.mapping = arguments.mapping.value_or(trace.cluster_gpus > 0 ? sim::Mapping::random : sim::Mapping::gpus);
  if (arguments.from) options.from = *arguments.from;
  if (arguments.to) options.to = *arguments.to;
  if (arguments.busiest_hours > 0) {
    options.from = sim::busiest_window(trace, arguments.busiest_hours * kHour);
    options.to = options.from + arguments.busiest_hours * kHour;
  }
  return options;
}

sim::PolicyOptions options_of_policies(const SimulateArguments& arguments, const sim::RedeployOptions& redeploy) {
  sim::PolicyOptions options;
  options.redeploy = redeploy;
  options.trade = arguments.trade;
  options.short_first = arguments.short_first;
  options.objective = arguments.objective;
  options.idle_seconds = arguments.idle_seconds;
  if (!arguments.config.empty()) {
    const wire::Config config = wire::load_config(arguments.config);
    options.scheduler = wire::scheduler_options(config);
    options.most_gpus = config.max_gpus;
    options.migrate_gain = config.migrate_gain;
    options.share_profiles = config.share_profiles;
    options.flextrain = wire::flextrain_options(config);
    options.anchored = wire::arena_options(config);
    options.lambda = options.scheduler->lambda;
  }
  options.lambda = arguments.lambda.value_or(options.lambda);
  return options;
}

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double Study::offered_load() const {
  const double last = workload.jobs.empty() ? 0 : workload.jobs.back().submit;
  return last > 0 ? workload.gpu_seconds / (gpus * last) : 0;
}

Study run_study(const SimulateArguments& arguments, const Progress& progress) {
  Study study;
  study.arguments = arguments;
  const SimulatedCluster cluster = load_cluster(arguments, study);
  study.kinds = load_kinds(arguments, cluster, study.notes);
  study.trace = load_trace(arguments);
  const sim::WorkloadOptions options = workload_options(arguments, study.trace);
  study.workload = load_workload(arguments, study, options);
  if (study.workload.adapted > 0)
    study.notes.push_back(counted(study.workload.adapted, "job") +
                          " cannot run on so many GPUs of the type asked for; more of it is taken, or any type");
  study.window_from = std::max(options.from, study.trace.jobs.front().submit);
  study.window_to = std::min(options.to, study.trace.jobs.back().submit);
  study.trace.jobs.clear();

  sim::SimulationOptions simulation;
  simulation.queue = arguments.queue;
  simulation.redeploy = cluster.redeploy;
  simulation.delays = cluster.delays;
  simulation.slurm = study.slurm = cluster.slurm;
  simulation.prediction_error = arguments.prediction_error;
  simulation.seed = options.seed;
  simulation.clock = clock_seconds;
  const sim::PolicyOptions policy_options = options_of_policies(arguments, cluster.redeploy);
  const auto play = [&](const std::string& name) {
    simulation.progress = [&](double share) { progress(name, share); };
    const auto policy = sim::make_policy(name, policy_options);
    return sim::simulate(cluster.site, cluster.view, study.kinds, study.workload.jobs, *policy, simulation);
  };
  study.reference = play("fifo");
  for (const std::string& name : arguments.policies) {
    if (name == kBound) {
      study.bound = sim::jct_bound(*cluster.site, cluster.view, study.kinds, study.workload.jobs, cluster.delays);
      continue;
    }
    study.runs.push_back(name == "fifo" ? study.reference : play(name));
    study.summaries.push_back(sim::summarize(study.runs.back(), study.reference));
  }
  return study;
}

}  // namespace espalier::cli
