#include "launcher/slurm/extensions.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/slurm/extension_request.hpp"
#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kPoll{100};
constexpr wire::Loop::Milliseconds kConfirm{150};
constexpr wire::Loop::Milliseconds kWatch{5000};
constexpr wire::Loop::Milliseconds kKeeperComes{20000};  // that of an extension that an earlier launcher has left
constexpr std::chrono::seconds kLook{1}, kTaken{5};
constexpr int kMissedHeartbeats = 10;
constexpr int kFalters = 3;  // missed heartbeats after which a keeper falters
// After this many checks the launcher gives the extension back itself, even if its keeper was told to.
constexpr int kKeeperTime = 10;
}  // namespace

Extensions::Extensions(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                       std::vector<std::string> environment, Callbacks callbacks)
    : loop_(loop),
      slurm_(slurm),
      context_(context),
      environment_(std::move(environment)),
      callbacks_(std::move(callbacks)) {
  const auto period = std::chrono::milliseconds(static_cast<long>(context.config.heartbeat_seconds * 1000));
  heartbeat_ = loop_.every(period, [this] { heartbeat(); });
  watch_ = loop_.every(kWatch, [this] { watch(); });
}

void Extensions::heartbeat() {
  std::vector<JobId> silent;
  for (auto& [id, job] : jobs_) {
    if (!job.keeper) continue;
    job.keeper->send(wire::Heartbeat{});
    if (++job.missed > kMissedHeartbeats) silent.push_back(id);
  }
  for (const JobId id : silent) lose_keeper(id);
}

void Extensions::keep(const wire::Keep& what) {
  for (auto& [id, job] : jobs_)
    if (job.keeper) job.keeper->send(what);
}

bool Extensions::falters(JobId id) const {
  const auto at = jobs_.find(id);
  return at != jobs_.end() && at->second.missed > kFalters;
}

void Extensions::acquire(const std::vector<ExtensionRequest>& requests) {
  ++attempt_;
  acquiring_ = true;
  for (const ExtensionRequest& request : requests) submit(request, grants_.take(request), true);
  poll_ = loop_.every(kPoll, [this] { poll(); });
  deadline_ = loop_.after(std::chrono::seconds(context_.config.acquire_seconds), [this] {
    fail("not granted within " + std::to_string(context_.config.acquire_seconds) + " s");
  });
}

void Extensions::submit(const ExtensionRequest& request, const std::string& grant, bool immediate) {
  ++submitting_;
  const ExtensionJob job = extension_job(context_, environment_, request, grant, immediate);
  slurm_.post([this, job, grant, attempt = attempt_]() -> std::function<void()> {
    JobId id = 0;
    std::string why;
    try {
      id = submit_extension(job);
    } catch (const Error& error) {
      why = error.what();
    }
    return [this, job, grant, attempt, id, why] {
      --submitting_;
      if (id == 0) {
        // A refusal to start at once only means that the extension must wait in the queue.
        if (job.immediate && attempt == attempt_ && acquiring_) return submit(job.request, grant, false);
        if (attempt == attempt_) fail(why);
        return;
      }
      spdlog::debug("extension {} of {} GPUs on {} submitted", id, job.request.gpus, job.request.node);
      Job& entry = jobs_[id];
      entry.request = job.request;
      entry.holding = {id, job.request.node, {}};
      if (attempt != attempt_ || !acquiring_) release(id);
    };
  });
}

void Extensions::poll() {
  if (!acquiring_) {
    poll_.reset();
    return;
  }
  for (auto& [id, job] : jobs_) {
    if (!job.acquiring || job.running || job.leaving || job.asked) continue;
    job.asked = true;
    const bool looks = wire::steady_now() - job.looked_at >= kLook;
    if (looks) job.looked_at = wire::steady_now();
    slurm_.post([this, id = id, looks, node = job.request.node]() -> std::function<void()> {
      std::optional<SlurmJob> seen;
      std::optional<int> idle;
      bool readable = true;
      try {
        seen = load_job(id);
        if (looks && seen && seen->state == SlurmJob::State::pending) idle = idle_gpus(node);
      } catch (const Error&) {
        readable = false;  // slurmctld is away: the deadline decides
      }
      return [this, id, seen, idle, readable] {
        const auto at = jobs_.find(id);
        if (at == jobs_.end()) return;
        at->second.asked = false;
        if (!readable || at->second.leaving) return;
        if (!seen || seen->state == SlurmJob::State::ended || seen->state == SlurmJob::State::completing) {
          jobs_.erase(at);
          return fail("extension " + std::to_string(id) + " ended before it was used");
        }
        if (seen->state == SlurmJob::State::pending) return weigh_chances(id, idle);
        if (seen->state != SlurmJob::State::running || seen->holdings.size() != 1) return;
        at->second.running = true;
        at->second.holding = seen->holdings.front();
        if (static_cast<int>(at->second.holding.gpus.size()) != at->second.request.gpus)
          return fail("extension " + std::to_string(id) + " got other GPUs than it asked for");
        check_complete();
      };
    });
  }
}

// Fails the proposal if another job has taken the GPUs before Slurm came to the extension. GPUs of a completing job are
// not idle yet, and may still go to the extension. So the proposal fails only after some seconds.
void Extensions::weigh_chances(JobId id, std::optional<int> idle) {
  if (!idle || !acquiring_) return;
  Job& job = jobs_.at(id);
  const auto now = wire::steady_now();
  if (*idle >= job.request.gpus) return job.lacks_gpus.reset();
  if (!job.lacks_gpus) job.lacks_gpus = now;
  if (now - *job.lacks_gpus < kTaken) return;
  fail("GPUs that were idle on " + job.request.node + " have gone to another job");
}

void Extensions::check_complete() {
  if (!acquiring_ || submitting_ > 0) return;
  for (const auto& [id, job] : jobs_)
    if (job.acquiring && !job.leaving && (!job.running || !job.keeper)) return;
  acquiring_ = false;
  poll_.reset();
  deadline_.reset();
  callbacks_.granted();
}

void Extensions::fail(const std::string& why) {
  if (!acquiring_) return;
  acquiring_ = false;
  poll_.reset();
  deadline_.reset();
  callbacks_.failed(why);
}

void Extensions::cancel_acquired() {
  acquiring_ = false;
  poll_.reset();
  deadline_.reset();
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_)
    if (job.acquiring && !job.leaving) ids.push_back(id);
  for (const JobId id : ids) release(id);
}

void Extensions::keep_acquired() {
  for (auto& [id, job] : jobs_)
    if (!job.leaving) job.acquiring = false;
}

void Extensions::adopt(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
  const auto at = jobs_.find(hello.job);
  // A keeper may come before Slurm's answer to the submission. It tries again, and the extension is known in a moment.
  if (at == jobs_.end() || at->second.keeper)
    throw Error("keeper: job " + std::to_string(hello.job) + " is not awaited");
  at->second.keeper = connection;
  connection->on_frame = [this, id = hello.job](const wire::Frame& frame) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) job->second.missed = 0;
    if (frame.type == wire::Notice::type) notice(id);
  };
  connection->on_closed = [this, id = hello.job](const std::string&) {
    if (const auto job = jobs_.find(id); job != jobs_.end()) job->second.keeper.reset();
    lose_keeper(id);
  };
  if (at->second.leaving) return connection->send(wire::GiveBack{});
  connection->send(wire::Heartbeat{});  // accepts the keeper: from now on it leaves when it loses the launcher
  if (callbacks_.came) callbacks_.came(hello.job, at->second.request);
  check_complete();
}

void Extensions::take_over(const std::vector<SlurmJob>& left) {
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

void Extensions::lose_keeper(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return;
  if (const auto silent = std::exchange(at->second.keeper, nullptr)) silent->close();
  if (at->second.leaving) return;
  const bool acquiring = at->second.acquiring;
  const Holding holding = at->second.holding;
  release(id);
  if (acquiring) fail("extension " + std::to_string(id) + " was lost");
  callbacks_.lost(holding);
}

void Extensions::release(JobId id, wire::Loop::Milliseconds in) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end() || at->second.leaving) return;
  at->second.leaving = true;
  if (callbacks_.leaves) callbacks_.leaves(id);
  if (in.count() == 0) return send_away(id);
  at->second.lingers = true;
  at->second.check = loop_.after(in, [this, id] { send_away(id); });
}

void Extensions::release_now() {
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_)
    if (job.lingers) ids.push_back(id);
  for (const JobId id : ids) send_away(id);
}

void Extensions::send_away(JobId id) {
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

void Extensions::confirm_release(JobId id, int attempt) {
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

void Extensions::release_all() {
  acquiring_ = false;
  ++attempt_;  // an extension still being submitted is given back when the answer comes
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const JobId id : ids) release(id);
  release_now();
}

std::vector<Holding> Extensions::holdings(bool with_acquired) const {
  std::vector<Holding> list;
  for (const auto& [id, job] : jobs_)
    if (!job.leaving && (with_acquired ? job.running || !job.acquiring : !job.acquiring)) list.push_back(job.holding);
  return list;
}

std::vector<Holding> Extensions::granted() const {
  std::vector<Holding> list;
  for (const auto& [id, job] : jobs_)
    if (!job.leaving && job.acquiring && job.running) list.push_back(job.holding);
  return list;
}

}  // namespace espalier::launcher
