#include "launcher/base/second_base.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/base/base_request.hpp"

namespace espalier::launcher {
namespace {

// A base that has not been granted this long after the backfill scheduler's next look is withdrawn, whatever it waits
// for: limits of its user or QOS that cannot hold two bases, GPUs that another job has taken meanwhile, or a busy
// slurmctld. Where an older job waits, only the backfill scheduler starts a base. A site whose nodes take longer to
// start a job allows an extension more time, and so a second base.
constexpr int kWaits = 10;                      // s, at least
constexpr wire::Loop::Milliseconds kAsk{1000};  // while it waits

}  // namespace

SecondBase::SecondBase(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                       std::vector<std::string> environment, CurrentBase& current, FirstBase& first, BaseJobs& jobs,
                       Callbacks callbacks)
    : loop_(loop),
      context_(context),
      current_(current),
      first_(first),
      jobs_(jobs),
      callbacks_(std::move(callbacks)),
      submission_(slurm, context, std::move(environment)) {}

void SecondBase::acquire(const std::vector<ExtensionRequest>& nodes) {
  ++attempt_;
  acquiring_ = true;
  const BaseShape& now = jobs_.at(current_.id() != 0 ? current_.id() : first_.waits()).shape;
  std::vector<std::string> only;
  only.reserve(nodes.size());
  for (const ExtensionRequest& request : nodes) only.push_back(request.node);
  const std::chrono::seconds waits(std::max(kWaits, context_.config.acquire_seconds) +
                                   std::min(context_.site.backfill_seconds, 60));
  deadline_ =
      loop_.after(waits, [this, waits] { fail("it was not granted within " + std::to_string(waits.count()) + " s"); });
  const auto wanted = [this, attempt = attempt_] { return attempt == attempt_ && acquiring_; };
  submission_.submit(current_.id(), current_.time(),
                     same_per_gpu(now, static_cast<int>(nodes.size()), nodes.front().gpus), std::move(only), wanted,
                     [this, wanted, beside = current_.id()](const SecondSubmission::Answer& answer) {
                       current_.limits_read(beside, answer.time);
                       if (answer.id == 0) return fail(answer.why);
                       id_ = answer.id;
                       jobs_.submitted(answer.id, answer.shape, current_.id() == 0 ? "a smaller" : "a second");
                       if (wanted()) return;
                       if (id_ == answer.id) id_ = 0;  // nobody waits for it any more
                       jobs_.release(answer.id);
                     });
}

void SecondBase::take_arrived() {
  id_ = first_.arrived();
  callbacks_.changed();
}

void SecondBase::fail(const std::string& why) {
  if (!acquiring_) return;
  cancel();
  if (current_.id() == 0) {
    callbacks_.changed();
    return callbacks_.smaller_failed(why);
  }
  callbacks_.second_failed(why);
}

void SecondBase::cancel() {
  acquiring_ = false;
  ++attempt_;
  deadline_.reset();
  const JobId id = std::exchange(id_, 0);
  if (id == 0) return;
  if (id == first_.arrived()) return first_.move_failed();
  jobs_.release(id);
}

void SecondBase::withdraw(const std::string& why) {
  if (acquiring_) return fail(why);
  if (id_ == 0 || id_ == first_.arrived() || current_.id() == 0) return;
  cancel();
  callbacks_.second_failed(why);
}

void SecondBase::still_waits(JobId id, bool limited) {
  if (id != id_ || !acquiring_) return;
  if (limited)
    return fail("Slurm job " + std::to_string(id) +
                " waits for a limit of its user, account or QOS, which the job's bases together exceed");
  jobs_.ask_later(id, kAsk);
}

bool SecondBase::granted(JobId id) {
  if (id != id_ || !acquiring_) return false;
  acquiring_ = false;
  deadline_.reset();
  return true;
}

bool SecondBase::ended(JobId id) { return id == id_ && std::exchange(id_, 0) != 0; }

void SecondBase::lost(const std::string& why) {
  if (acquiring_) return fail(why);
  callbacks_.second_failed(why);
}

JobId SecondBase::take() { return std::exchange(id_, 0); }

void SecondBase::stop() {
  acquiring_ = false;
  deadline_.reset();
}

std::vector<Holding> SecondBase::holdings() const {
  const BaseJobs::Base* base = jobs_.find(id_);
  return base != nullptr && base->granted ? base->holdings : std::vector<Holding>();
}

std::vector<NodeView> SecondBase::nodes() const {
  const BaseJobs::Base* base = jobs_.find(id_);
  return base != nullptr && base->granted ? base->nodes : std::vector<NodeView>();
}

}  // namespace espalier::launcher
