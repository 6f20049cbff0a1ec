#include "launcher/base/base_jobs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "launcher/slurm/absent_keeper.hpp"
#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Loop::Milliseconds kConfirm{150};
// A keeper's end reaches the launcher before slurmctld has heard of it from the node.
constexpr wire::Loop::Milliseconds kAgain{1000};
constexpr wire::Loop::Milliseconds kConfigures{1000};  // until Slurm is asked again about a base whose nodes boot
constexpr std::chrono::seconds kStoodStill{60};        // without an answer of Slurm's, which is asked every 5 s
// After the base has started: for the keepers of its other nodes, which steps start.
constexpr int kKeepersCome = 20;  // s, at least

constexpr int kMostOfStart =
    60;  // s; start_seconds may count an image or a preparation of nodes, which keepers do not need

// A Prolog that slurmd runs before the batch script shows in no state of the job. A site with a slow one allows more
// time for an extension or for a generation, and so for a base.
int keepers_come(const wire::Config& config) {
  return std::max(kKeepersCome, config.acquire_seconds + std::min(config.start_seconds, kMostOfStart));
}

// What Slurm said of the base counts also where it does not lower its time limit now. The next look tries again.
void shorten(const SlurmJob& base, std::time_t ends) {
  try {
    keep_within(base, ends);
  } catch (const Error& error) {
    spdlog::debug("base {}: {}", base.id, error.what());
  }
}

}  // namespace

bool given_back_unseen(const std::optional<SlurmJob>& base, std::chrono::steady_clock::duration since) {
  return base ? base->ended_well && !base->holdings.empty() : since > kStoodStill;
}

BaseJobs::BaseJobs(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, const BaseTime& time,
                   std::string place, Callbacks callbacks)
    : loop_(loop),
      slurm_(slurm),
      context_(context),
      time_(time),
      place_(std::move(place)),
      callbacks_(std::move(callbacks)) {}

void BaseJobs::add(JobId id, const BaseShape& shape) {
  bases_[id].shape = shape;
  bases_[id].heard_at = wire::steady_now();
}

void BaseJobs::submitted(JobId id, const BaseShape& shape, const std::string& which) {
  add(id, shape);
  spdlog::info("espalier: launch: {} base of job {} is Slurm job {}: {} node(s) with {} GPU(s) each", which,
               context_.job, id, shape.nodes, shape.gpus_per_node);
  callbacks_.changed();
  ask(id);
}

const BaseJobs::Base* BaseJobs::find(JobId id) const {
  const auto at = bases_.find(id);
  return at == bases_.end() ? nullptr : &at->second;
}

// A keeper may come before Slurm's answer to the submission. It tries again, and the base is known in a moment.
void BaseJobs::saw(const wire::KeeperHello& hello) {
  const auto at = bases_.find(hello.job);
  if (at == bases_.end()) throw Error("keeper: job " + std::to_string(hello.job) + " is no base of this job");
  if (at->second.leaving) throw Error("keeper: base " + std::to_string(hello.job) + " is being given back");
  at->second.keepers.insert(hello.node);
  if (!at->second.running) return ask(hello.job);
  // Training may start in check_granted(). If that fails, e.g. because the disk is full, the job ends with that error.
  // Called from here, the error would only make the launcher refuse the keeper.
  loop_.defer([this, id = hello.job] { check_granted(id, true); });
}

void BaseJobs::noticed(JobId id) {
  const auto at = bases_.find(id);
  if (at == bases_.end() || at->second.again) return;
  ask_if_held(id);
  at->second.again = loop_.after(kAgain, [this, id] {
    bases_.at(id).again.reset();
    ask_if_held(id);
  });
}

void BaseJobs::ask_if_held(JobId id) {
  if (const auto at = bases_.find(id); at != bases_.end() && !at->second.leaving) ask(id);
}

void BaseJobs::ask_about_all() {
  for (const JobId id : held()) ask(id);
}

void BaseJobs::ask_later(JobId id, wire::Loop::Milliseconds after) {
  bases_.at(id).check = loop_.after(after, [this, id] { ask_if_held(id); });
}

void BaseJobs::ask(JobId id) {
  Base& base = bases_.at(id);
  if (std::exchange(base.asked, true)) return;
  slurm_.post([this, id, runs = base.running, time = time_]() -> std::function<void()> {
    std::optional<SlurmJob> seen;
    std::vector<NodeView> nodes;
    bool readable = true;
    try {
      seen = load_job(id);
      if (seen) shorten(*seen, time.ends(std::time(nullptr)));
      if (seen && seen->state == SlurmJob::State::running && !runs) {
        std::vector<std::string> names;
        for (const Holding& held : seen->holdings) names.push_back(held.node);
        nodes = load_nodes(names);
      }
    } catch (const Error&) {
      readable = false;  // slurmctld is away: asked again later
    }
    return [this, id, seen, nodes, readable] {
      const auto at = bases_.find(id);
      if (at == bases_.end()) return;
      at->second.asked = false;
      if (readable && !at->second.leaving) answered(id, seen, nodes);
    };
  });
}

void BaseJobs::answered(JobId id, const std::optional<SlurmJob>& seen, const std::vector<NodeView>& nodes) {
  Base& base = bases_.at(id);
  base.past_deadline = seen && seen->past_deadline;
  const auto now = wire::steady_now();
  base.unseen = !base.running && given_back_unseen(seen, now - std::exchange(base.heard_at, now));
  const bool gone = !seen || seen->state == SlurmJob::State::ended;
  // A base that completes is lost when its processes are; until then a checkpoint can still be written. Training does
  // not go over to a second base that completes.
  if (gone || (seen->state == SlurmJob::State::completing &&
               (callbacks_.lost_when_completing(id) || !base.granted || base.keepers.empty())))
    return callbacks_.ended(id, "its base, Slurm job " + std::to_string(id) + ", has ended");
  if (seen->beyond_partition && !std::exchange(base.beyond_told, true))
    spdlog::warn(
        "espalier: launch: base {} waits as its time limit is longer than the MaxTime of partition {}; it is lowered "
        "to that",
        id, seen->partition);
  if (seen->state == SlurmJob::State::pending) return callbacks_.waits(id, seen->limited);
  if (seen->state != SlurmJob::State::running || base.running) return;
  // Slurm calls a base running while its nodes boot. Its keepers cannot come before that is over. Slurm limits that
  // time itself (ResumeTimeout, PrologEpilogTimeout).
  if (seen->configuring) return ask_later(id, kConfigures);
  base.running = true;
  base.holdings = seen->holdings;
  base.ends = seen->ends;
  base.nodes = nodes;
  std::size_t gpus = 0;
  for (const Holding& held : base.holdings) gpus += held.gpus.size();
  if (static_cast<int>(gpus) != base.shape.nodes * base.shape.gpus_per_node)
    return callbacks_.ended(
        id, "Slurm job " + std::to_string(id) + " got " + std::to_string(gpus) + " GPUs, not those asked for");
  for (const Holding& held : base.holdings) callbacks_.came(held);
  base.keepers_come = std::make_unique<AwakeTimer>(loop_);
  base.keepers_come->start(std::chrono::seconds(keepers_come(context_.config)),
                           [this, id] { check_granted(id, false); });
  check_granted(id, true);
}

// `patient`: keepers that have not come yet are waited for.
void BaseJobs::check_granted(JobId id, bool patient) {
  const auto at = bases_.find(id);
  if (at == bases_.end()) return;
  Base& base = at->second;
  if (!base.running || base.granted || base.leaving) return;
  const bool all = std::all_of(base.holdings.begin(), base.holdings.end(),
                               [&](const Holding& held) { return base.keepers.contains(held.node); });
  if (!all && patient) return;
  if (base.keepers.empty())
    return callbacks_.ended(id, absent_keeper(id, base.holdings.front().node, place_, keepers_come(context_.config)) +
                                    ", or a Prolog took longer (launch.acquire_seconds allows more)");
  if (!all)
    spdlog::warn("espalier: launch: not every node of base {} has a keeper; state there does not outlive its workers",
                 id);
  base.granted = true;
  base.keepers_come.reset();
  callbacks_.granted(id);
}

void BaseJobs::release(JobId id) {
  Base& base = bases_.at(id);
  if (std::exchange(base.leaving, true)) return;
  callbacks_.leaves(id);
  callbacks_.changed();
  confirm_release(id);
}

void BaseJobs::confirm_release(JobId id) {
  slurm_.post_first([this, id, submitted = context_.job, restarts = context_.restarts]() -> std::function<void()> {
    bool gone = false;
    try {
      // Slurm may have requeued the job, and its next launcher trains on the base.
      if (has_been_requeued(submitted, restarts)) gone = true;
      else give_back(id);
      const auto job = load_job(id);
      gone = gone || !job || job->state == SlurmJob::State::ended || job->state == SlurmJob::State::completing;
    } catch (const Error& error) {
      spdlog::debug("base {}: {}", id, error.what());
    }
    return [this, id, gone] {
      const auto at = bases_.find(id);
      if (at == bases_.end()) return;
      if (gone) {
        bases_.erase(at);
        return callbacks_.changed();
      }
      at->second.check = loop_.after(kConfirm, [this, id] { confirm_release(id); });
    };
  });
}

void BaseJobs::release_all() {
  std::vector<JobId> ids;
  for (const auto& [id, base] : bases_) ids.push_back(id);
  for (const JobId id : ids) release(id);
}

std::vector<Holding> BaseJobs::holdings_of(JobId id) const {
  const Base* base = find(id);
  return base != nullptr ? base->holdings : std::vector<Holding>();
}

std::vector<JobId> BaseJobs::held() const {
  std::vector<JobId> ids;
  for (const auto& [id, base] : bases_)
    if (!base.leaving) ids.push_back(id);
  return ids;
}

}  // namespace espalier::launcher
