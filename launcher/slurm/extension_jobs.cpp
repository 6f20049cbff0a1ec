#include "launcher/slurm/extension_jobs.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kConfirm{150};
constexpr wire::Loop::Milliseconds kKeeperComes{20000};  // that of an extension that an earlier launcher has left
constexpr int kMissedHeartbeats = 10;
constexpr int kFalters = 3;  // missed heartbeats after which a keeper falters
// After this many checks the launcher gives the extension back itself, even if its keeper was told to.
constexpr int kKeeperTime = 10;
}  // namespace

ExtensionJobs::ExtensionJobs(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, Callbacks callbacks)
    : loop_(loop), slurm_(slurm), context_(context), callbacks_(std::move(callbacks)) {
  const auto period = std::chrono::milliseconds(static_cast<long>(context.config.heartbeat_seconds * 1000));
  heartbeat_ = loop_.every(period, [this] { heartbeat(); });
}

template <class Test>
std::vector<JobId> ExtensionJobs::ids(const Test& test) const {
  std::vector<JobId> list;
  for (const auto& [id, job] : jobs_)
    if (test(job)) list.push_back(id);
  return list;
}

void ExtensionJobs::add(JobId id, const ExtensionRequest& request) {
  Job& job = jobs_[id];
  job.request = request;
  job.holding = {id, request.node, {}};
}

void ExtensionJobs::runs(JobId id, const Holding& holding) {
  Job& job = jobs_.at(id);
  job.running = true;
  job.holding = holding;
}

void ExtensionJobs::forget(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return;
  const bool leaving = at->second.leaving;
  jobs_.erase(at);
  if (!leaving) callbacks_.leaves(id);  // its rank server may have been started
}

// ---- keepers

void ExtensionJobs::heartbeat() {
  std::vector<JobId> silent;
  for (auto& [id, job] : jobs_) {
    if (!job.keeper) continue;
    job.keeper->send(wire::Heartbeat{});
    if (++job.missed > kMissedHeartbeats) silent.push_back(id);
  }
  for (const JobId id : silent) lose_keeper(id);
}

void ExtensionJobs::keep(const wire::Keep& what) {
  for (auto& [id, job] : jobs_)
    if (job.keeper) job.keeper->send(what);
}

bool ExtensionJobs::falters(JobId id) const {
  const auto at = jobs_.find(id);
  return at != jobs_.end() && at->second.missed > kFalters;
}

void ExtensionJobs::adopt(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
  const auto at = jobs_.find(hello.job);
  // A keeper may come before Slurm's answer to the submission. It tries again, and the extension is known in a moment.
  if (at == jobs_.end() || at->second.keeper)
    throw Error("keeper: job " + std::to_string(hello.job) + " is not awaited");
  at->second.keeper = connection;
  connection->on_frame = [this, id = hello.job](const wire::Frame& frame) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) job->second.missed = 0;
    if (frame.type == wire::Notice::type) callbacks_.noticed(id);
  };
  connection->on_closed = [this, id = hello.job](const std::string&) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) job->second.keeper.reset();
    lose_keeper(id);
  };
  if (at->second.leaving) return connection->send(wire::GiveBack{});
  connection->send(wire::Heartbeat{});  // accepts the keeper: from now on it leaves when it loses the launcher
  callbacks_.came(hello.job, at->second.request);
}

void ExtensionJobs::take_over(const std::vector<SlurmJob>& left) {
  for (const SlurmJob& seen : left) {
    Job& job = jobs_[seen.id];
    job.holding = seen.holdings.front();
    job.request.node = job.holding.node;
    job.request.gpus = static_cast<int>(job.holding.gpus.size());
    job.acquiring = false;
    job.running = true;
    job.check = loop_.after(kKeeperComes, [this, id = seen.id] {
      if (const auto at = jobs_.find(id); at != jobs_.end() && !at->second.keeper) lose_keeper(id);
    });
    callbacks_.came(seen.id, job.request);
  }
}

void ExtensionJobs::lose_keeper(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return;
  if (const auto silent = std::exchange(at->second.keeper, nullptr)) silent->close();
  if (at->second.leaving) return;
  const bool acquiring = at->second.acquiring;
  const Holding holding = at->second.holding;
  release(id);
  callbacks_.lost(holding, acquiring);
}

// ---- giving back

bool ExtensionJobs::refuse(JobId id, const std::string& why) {
  const Job* const job = held(id);
  if (job == nullptr || !job->acquiring) return false;
  const Holding holding = job->holding;
  release(id);
  callbacks_.refused(holding, why);
  return true;
}

void ExtensionJobs::keep_acquired() {
  for (auto& [id, job] : jobs_)
    if (!job.leaving) job.acquiring = false;
}

void ExtensionJobs::release(JobId id, wire::Loop::Milliseconds in) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end() || at->second.leaving) return;
  at->second.leaving = true;
  callbacks_.leaves(id);
  if (in.count() == 0) return send_away(id);
  at->second.lingers = true;
  at->second.check = loop_.after(in, [this, id] { send_away(id); });
}

void ExtensionJobs::release_acquired() {
  for (const JobId id : ids([](const Job& job) { return job.acquiring; })) release(id);
}

void ExtensionJobs::release_now() {
  for (const JobId id : ids([](const Job& job) { return job.lingers; })) send_away(id);
}

void ExtensionJobs::release_all() {
  for (const JobId id : ids([](const Job&) { return true; })) release(id);
  release_now();
}

// Without a word to their keepers: one that is told to give back ends the state that the next launcher goes on with. A
// keeper whose connection closes waits for that launcher, as after the loss of this one.
void ExtensionJobs::leave_to_next() {
  for (auto& [id, job] : std::exchange(jobs_, {})) {
    if (job.keeper) job.keeper->close();
    if (!job.leaving) callbacks_.leaves(id);
  }
}

void ExtensionJobs::send_away(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return;
  at->second.lingers = false;
  at->second.check.reset();
  if (at->second.keeper) {
    at->second.keeper->send(wire::GiveBack{});
    confirm_release(id, 0);
  } else {
    confirm_release(id, kKeeperTime);
  }
}

void ExtensionJobs::confirm_release(JobId id, int attempt) {
  slurm_.post_first([this, id, attempt, of = context_.movable ? context_.job : 0,
                     restarts = context_.restarts]() -> std::function<void()> {
    bool gone = false;
    try {
      // Slurm may have requeued a movable job, and its next launcher trains on the extension.
      if (of != 0 && has_been_requeued(of, restarts)) gone = true;
      else if (attempt >= kKeeperTime) give_back(id);
      const auto job = load_job(id);
      gone = gone || !job || job->state == SlurmJob::State::ended || job->state == SlurmJob::State::completing;
    } catch (const Error& error) {
      spdlog::debug("extension {}: {}", id, error.what());
    }
    return [this, id, attempt, gone] {
      const auto at = jobs_.find(id);
      if (at == jobs_.end()) return;
      if (gone) {
        jobs_.erase(at);
        callbacks_.released(id);
        return;
      }
      at->second.check = loop_.after(kConfirm, [this, id, attempt] { confirm_release(id, attempt + 1); });
    };
  });
}

// ---- what they hold

const ExtensionJobs::Job* ExtensionJobs::held(JobId id) const {
  const auto at = jobs_.find(id);
  return at != jobs_.end() && !at->second.leaving ? &at->second : nullptr;
}

std::vector<Holding> ExtensionJobs::holdings(bool with_acquired) const {
  std::vector<Holding> list;
  for (const auto& [id, job] : jobs_)
    if (!job.leaving && (with_acquired ? job.running || !job.acquiring : !job.acquiring)) list.push_back(job.holding);
  return list;
}

std::vector<Holding> ExtensionJobs::granted() const {
  std::vector<Holding> list;
  for (const auto& [id, job] : jobs_)
    if (!job.leaving && job.acquiring && job.running) list.push_back(job.holding);
  return list;
}

}  // namespace espalier::launcher
