#include "launcher/slurm/acquisition.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "launcher/slurm/absent_keeper.hpp"
#include "launcher/slurm/extension_request.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kPoll{100};
constexpr std::chrono::seconds kLook{1}, kTaken{5};
}  // namespace

Acquisition::Acquisition(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                         std::vector<std::string> environment, ExtensionJobs& jobs, Callbacks callbacks, Ask ask)
    : loop_(loop),
      slurm_(slurm),
      context_(context),
      environment_(std::move(environment)),
      jobs_(jobs),
      callbacks_(std::move(callbacks)),
      ask_(std::move(ask)) {}

void Acquisition::begin(const std::vector<ExtensionRequest>& requests, Grants& grants) {
  *wanted_ = ++attempt_;
  acquiring_ = true;
  std::erase_if(pending_, [this](const auto& entry) { return !jobs_.all().contains(entry.first); });
  for (const ExtensionRequest& request : requests) submit(request, grants.take(request), true);
  poll_ = loop_.every(kPoll, [this] { poll(); });
  deadline_ = loop_.after(std::chrono::seconds(context_.config.acquire_seconds), [this] { fail(why_late()); });
}

std::string Acquisition::why_late() const {
  const int seconds = context_.config.acquire_seconds;
  for (const auto& [id, job] : jobs_.all()) {
    if (!job.acquiring || job.leaving) continue;
    if (job.running && !job.keeper) return absent_keeper(id, job.request.node, place_in(environment_), seconds);
    if (const auto at = pending_.find(id); !job.running && at != pending_.end() && at->second.configuring)
      return configuring_node(id, job.request.node, seconds);
  }
  return "not granted within " + std::to_string(seconds) + " s";
}

void Acquisition::submit(const ExtensionRequest& request, const std::string& grant, bool immediate) {
  ++submitting_;
  const ExtensionJob job = extension_job(context_, environment_, request, grant, immediate);
  slurm_.post([this, job, grant, attempt = attempt_, wanted = wanted_]() -> std::function<void()> {
    JobId id = 0;
    std::string why;
    try {
      // Calls before this one may have waited for slurmctld until the proposal had been given up.
      if (*wanted == attempt) id = submit_extension(job);
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
      jobs_.add(id, job.request);
      if (attempt != attempt_ || !acquiring_) jobs_.release(id);
    };
  });
}

void Acquisition::poll() {
  if (!acquiring_) {
    poll_.reset();
    return;
  }
  for (const auto& [id, job] : jobs_.all()) {
    if (!job.acquiring || job.running || job.leaving || pending_[id].asked) continue;
    Pending& pending = pending_[id];
    pending.asked = true;
    const bool looks = wire::steady_now() - pending.looked_at >= kLook;
    if (looks) pending.looked_at = wire::steady_now();
    slurm_.post([this, ask = ask_, id = id, looks, node = job.request.node]() -> std::function<void()> {
      std::optional<SlurmJob> seen;
      std::optional<int> idle;
      bool readable = true;
      try {
        seen = ask(id);
        if (looks && seen && seen->state == SlurmJob::State::pending) idle = idle_gpus(node);
      } catch (const Error&) {
        readable = false;  // slurmctld is away: the deadline decides
      }
      return [this, id, seen, idle, readable] {
        pending_[id].asked = false;
        if (readable) answered(id, seen, idle);
      };
    });
  }
}

void Acquisition::answered(JobId id, const std::optional<SlurmJob>& seen, std::optional<int> idle) {
  const ExtensionJobs::Job* const job = jobs_.held(id);
  if (job == nullptr) return;
  if (!seen || seen->state == SlurmJob::State::ended || seen->state == SlurmJob::State::completing) {
    jobs_.forget(id);
    return fail("extension " + std::to_string(id) + " ended before it was used");
  }
  if (seen->state == SlurmJob::State::pending) return weigh_chances(id, job->request, idle);
  if (seen->state != SlurmJob::State::running || seen->holdings.size() != 1) return;
  // Slurm calls an extension running while its node boots. Its keeper comes after that.
  pending_[id].configuring = seen->configuring;
  if (seen->configuring) return;
  jobs_.runs(id, seen->holdings.front());
  if (static_cast<int>(job->holding.gpus.size()) != job->request.gpus)
    return fail("extension " + std::to_string(id) + " got other GPUs than it asked for");
  check_complete();
}

// Fails the proposal if another job has taken the GPUs before Slurm came to the extension. GPUs of a completing job are
// not idle yet, and may still go to the extension. So the proposal fails only after some seconds.
void Acquisition::weigh_chances(JobId id, const ExtensionRequest& request, std::optional<int> idle) {
  if (!idle || !acquiring_) return;
  auto& lacks_gpus = pending_[id].lacks_gpus;
  const auto now = wire::steady_now();
  if (*idle >= request.gpus) return lacks_gpus.reset();
  if (!lacks_gpus) lacks_gpus = now;
  if (now - *lacks_gpus < kTaken) return;
  fail("GPUs that were idle on " + request.node + " have gone to another job");
}

void Acquisition::check_complete() {
  if (!acquiring_ || submitting_ > 0) return;
  for (const auto& [id, job] : jobs_.all())
    if (job.acquiring && !job.leaving && (!job.running || !job.keeper)) return;
  cancel();
  callbacks_.granted();
}

void Acquisition::fail(const std::string& why) {
  if (!acquiring_) return;
  cancel();
  callbacks_.failed(why);
}

void Acquisition::cancel() {
  acquiring_ = false;
  *wanted_ = 0;
  poll_.reset();
  deadline_.reset();
}

}  // namespace espalier::launcher
