// The launcher's calls of libslurm, answered by the model of Slurm. They replace
// launcher/slurm/{slurm,base_job,job_update}.cpp.
#include "launcher/job/launcher.hpp"
#include "launcher/slurm/base_job.hpp"
#include "planner/core/error.hpp"
#include "tests/sim/history.hpp"

namespace espalier::launcher {

using sim::history;

namespace {
void reach_slurmctld() {
  if (history().slurm_fails) throw Error("slurm: unable to contact the controller");
}
}  // namespace

std::optional<SlurmJob> load_job(JobId id) {
  reach_slurmctld();
  const sim::SimJob* job = history().slurm->find(id);
  if (job == nullptr || (job->state == SlurmJobState::ended && history().timeline.now() - job->ended > 5))
    return std::nullopt;
  SlurmJob result;
  result.id = id;
  result.state = static_cast<SlurmJob::State>(job->state);
  result.comment = job->comment;
  result.holdings = job->holdings;
  result.preempted = history().slurm->tells_preemption(*job);
  result.restarts = job->restarts;
  result.runs_again = job->runs_again;
  result.cpus = job->nodes;
  if (job->kind == sim::SimJob::Kind::submitted) result.holdings.clear();
  if (job->kind != sim::SimJob::Kind::base) return result;
  result.configuring = job->state == SlurmJobState::running && history().timeline.now() < job->configured;
  result.wanted_nodes = job->nodes;
  result.wanted_gpus_per_node = job->gpus;
  result.excluded = job->excluded;
  return result;
}
std::map<JobId, SlurmJob> load_jobs(const std::set<JobId>& ids) {
  std::map<JobId, SlurmJob> found;
  for (const JobId id : ids)
    if (auto job = load_job(id)) found.emplace(id, std::move(*job));
  return found;
}

std::optional<int> idle_gpus(const std::string& node) {
  reach_slurmctld();
  for (const sim::SimNode& one : history().slurm->nodes())
    if (one.name == node) return static_cast<int>(std::count(one.owner.begin(), one.owner.end(), JobId{0}));
  throw Error("slurm: node " + node + " is not known");
}

namespace {
// A launcher may have given the change up while slurmctld was away. Then it must not submit what was to be for it.
void check_wanted(JobId anchor) {
  const auto at = history().launchers.find(anchor);
  const sim::SimJob* const job = history().slurm->find(anchor);
  if (at == history().launchers.end() || !at->second.launcher || job == nullptr || job->restarts > 0) return;
  const JobPhase phase = at->second.launcher->phase();
  if (phase != JobPhase::acquiring && phase != JobPhase::launching)
    history().violate("job " + std::to_string(anchor) + ": submits an extension in state " + to_string(phase));
}
}  // namespace

JobId submit_extension(const ExtensionJob& job) {
  reach_slurmctld();
  check_wanted(job.anchor);
  const JobId id = history().slurm->submit_extension(job);
  history().note([&] {
    return "slurm: extension " + std::to_string(id) + " of " + std::to_string(job.request.gpus) + " GPUs on " +
           job.request.node + " submitted" + (history().answer_lost ? ", the answer is lost" : "");
  });
  if (history().answer_lost) throw Error("slurm: socket timed out");
  return id;
}

int kill_steps(JobId id, std::optional<std::uint32_t>) {
  reach_slurmctld();
  history().training->kill_steps(id);
  return 0;
}

void give_back(JobId id, std::optional<std::uint32_t>) {
  reach_slurmctld();
  history().note([&] { return "slurm: " + std::to_string(id) + " is given back by its launcher"; });
  history().slurm->give_back(id);
}

SlurmSite load_site(const std::string&) { return {}; }
std::vector<NodeView> load_nodes(const std::vector<std::string>& names) {
  if (!history().movable) return {};
  reach_slurmctld();
  std::vector<NodeView> nodes;
  for (const sim::SimNode& one : history().slurm->nodes()) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) continue;
    NodeView view;
    view.name = one.name;
    view.gpu_type = "h100";
    view.gpu_owner.assign(one.owner.size(), 0);
    nodes.push_back(std::move(view));
  }
  return nodes;
}

// ---- bases of movable jobs

std::vector<NodeCapacity> partition_nodes(const std::string&) {
  reach_slurmctld();
  std::vector<NodeCapacity> nodes;
  for (const sim::SimNode& one : history().slurm->nodes())
    nodes.push_back({one.name, one.owner.empty() ? "" : "h100", static_cast<int>(one.owner.size()), 64, 64000});
  return nodes;
}

void keep_within(const SlurmJob&, std::time_t) {}  // its jobs have no time limits
long partition_minutes(const std::string&) { return 0; }
void exclude_nodes(JobId id, const std::vector<std::string>& nodes) {
  reach_slurmctld();
  history().slurm->exclude(id, nodes);
  history().note([&] { return "slurm: base " + std::to_string(id) + " may get other nodes now"; });
  if (history().answer_lost) throw Error("slurm: socket timed out");
}

JobId submit_base(const BaseJob& job) {
  reach_slurmctld();
  const JobId id = history().slurm->submit_base(job);
  history().note([&] {
    return "slurm: base " + std::to_string(id) + " of " + std::to_string(job.shape.nodes) + " x " +
           std::to_string(job.shape.gpus_per_node) + " GPUs submitted" +
           (history().answer_lost ? ", the answer is lost" : "");
  });
  if (history().answer_lost) throw Error("slurm: socket timed out");
  return id;
}

std::string base_comment(JobId submitted, const std::string& nonce) {
  return "espalier:base:" + std::to_string(submitted) + ":" + nonce;
}

namespace {
std::vector<SlurmJob> marked(JobId submitted, sim::SimJob::Kind kind) {
  reach_slurmctld();
  std::vector<SlurmJob> jobs;
  for (const JobId id : history().slurm->marked(submitted, kind))
    if (auto job = load_job(id)) jobs.push_back(std::move(*job));
  return jobs;
}
}  // namespace

std::vector<SlurmJob> bases_of(JobId submitted) { return marked(submitted, sim::SimJob::Kind::base); }
std::vector<SlurmJob> extensions_of(JobId submitted) { return marked(submitted, sim::SimJob::Kind::extension); }

}  // namespace espalier::launcher
