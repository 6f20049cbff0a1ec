// The launchers of a history: what each is told of its job, and how it starts and ends.
#include "launcher/job/launcher.hpp"
#include "launcher/slurm/base_job.hpp"
#include "planner/core/error.hpp"
#include "tests/sim/history.hpp"
#include "tests/sim/invariants.hpp"

namespace espalier::sim {

// What a movable job asks for stays the same when it is started again.
launcher::JobContext History::context_of(const SimJob& job) {
  launcher::JobContext context;
  context.job = job.id;
  context.node = job.holdings.front().node;
  context.self = "espalier-launch";
  context.program = {random.chance(0.5) ? "describes itself" : "train"};
  context.min_gpus = 1;
  context.max_gpus = 2 + random.below(5);
  context.anchor = job.holdings;
  context.max_gpus = std::max(context.max_gpus, static_cast<int>(context.anchor_gpus().size()));
  context.accuracy = random.chance(0.5) ? Accuracy::relaxed : Accuracy::bitwise;
  context.config = config;
  context.site.kill_wait_seconds = static_cast<int>(SlurmModel::kKillWait);
  context.site.grace_seconds[SlurmModel::kPartition] = static_cast<int>(SlurmModel::kGrace);
  Random own(static_cast<std::uint64_t>(job.id) * 7919 + static_cast<std::uint64_t>(job.submitted * 1e6));
  if (job.kind != SimJob::Kind::submitted) {
    const auto gpus = static_cast<int>(context.anchor_gpus().size());
    if (own.chance(0.3)) context.floor_gpus = context.min_gpus = 1 + own.below(gpus);
    return context;
  }
  context.program = {own.chance(0.5) ? "describes itself" : "train"};
  context.accuracy = own.chance(0.5) ? Accuracy::relaxed : Accuracy::bitwise;
  context.movable = true;
  context.anchor.clear();
  context.floor_gpus = context.min_gpus = 1 + own.below(2);
  context.base_gpus = context.min_gpus + (own.chance(0.5) ? own.below(3) : 0);
  const auto possible = [&](int gpus) {
    try {
      launcher::base_shape(gpus, launcher::partition_nodes(""), {});
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  while (context.base_gpus > context.min_gpus && !possible(context.base_gpus)) --context.base_gpus;
  context.max_gpus = context.base_gpus + own.below(4);
  context.partition = "main";
  context.restarts = job.restarts;
  context.site.backfill_seconds = static_cast<int>(SlurmModel::kBackfill);
  return context;
}

void History::start_launcher(const SimJob& job) {
  launcher::JobContext context = context_of(job);
  if (const auto old = launchers.find(job.id); old != launchers.end() && old->second.party->alive)
    cut_off_.push_back(launchers.extract(old));
  LauncherProcess& process = launchers[job.id];
  process.signals.clear();
  process.seen = JobPhase::launching;
  process.job = job.id;
  process.movable = context.movable;
  process.floor = context.floor_gpus;
  process.restarts = context.restarts;
  process.party = born = std::make_shared<Party>();
  born->name = "launcher " + std::to_string(job.id);
  born->node = context.node;
  born->run = [this, &process](const Callback& event) {
    try {
      event();
    } catch (const Crash&) {
      return end_launcher(process, false);
    } catch (const std::exception&) {
      process.party->loop->fail(std::current_exception());
      if (process.launcher->serve()) process.party->stopped = true;
    }
    if (!process.party->stopped) return;
    if (!superseded(process.job, process.party)) invariants_->job_ended(process.job);
    end_launcher(process, false);
  };
  note([&] { return "launcher " + std::to_string(job.id) + ": starts on " + context.node; });
  if (context.restarts > 0) invariants_->requeued(job.id, context.node, process.ended);
  try {
    process.launcher = std::make_unique<launcher::Launcher>(
        std::move(context), [&process](const wire::Keep& keep) { process.keep = keep; });
    process.launcher->start();
  } catch (const Error&) {  // a real program would run without elasticity
    end_launcher(process, false);
  }
}

void History::end_launcher(LauncherProcess& process, bool with_node) {
  if (!process.party->alive) return;
  note([&] { return process.party->name + ": is gone"; });
  process.party->alive = false;
  process.ended = timeline.now();
  network.died(process.party, with_node);
  process.launcher.reset();
  process.signals.clear();
  if (with_node) return;
  timeline.at(timeline.now() + random.real(0.02, 0.3), nullptr, [this, id = process.job, restarts = process.restarts] {
    if (const SimJob* job = slurm->find(id); job != nullptr && job->restarts == restarts) slurm->over(id);
  });
}

int History::restarts_of(const PartyPtr& launcher) const {
  for (const auto& [id, process] : launchers)
    if (process.party == launcher) return process.restarts;
  for (const auto& one : cut_off_)
    if (one.mapped().party == launcher) return one.mapped().restarts;
  return 0;  // one of before
}

bool History::superseded(JobId job, const PartyPtr& launcher) const {
  const SimJob* const now = slurm->find(job);
  return now != nullptr && now->restarts > restarts_of(launcher);
}

void History::signal_launcher(JobId job, int number) {
  const auto at = launchers.find(job);
  if (at == launchers.end() || !at->second.launcher) return;
  for (const auto& [what, callback] : at->second.signals)
    if (what == number) timeline.at(timeline.now(), at->second.party, callback);
}

}  // namespace espalier::sim
