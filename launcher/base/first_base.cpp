#include "launcher/base/first_base.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace espalier::launcher {
namespace {
constexpr int kMostTries = 3;  // of a move to the base, once it has arrived
constexpr int kMostAnew = 3;
}  // namespace

FirstBase::FirstBase(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                     std::vector<std::string> environment, const CurrentBase& current, BaseJobs& jobs,
                     Callbacks callbacks)
    : context_(context),
      current_(current),
      jobs_(jobs),
      callbacks_(std::move(callbacks)),
      submission_(loop, slurm, context, std::move(environment)) {}

void FirstBase::submit() {
  submission_.submit(current_.time(), [this](JobId id, const BaseShape& shape, const std::string& why) {
    if (id != 0) {
      waits_ = id;
      jobs_.submitted(id, shape, "the");
    }
    if (id != 0 && stopped_) return jobs_.release(id);
    if (id == 0 && !stopped_) refused("the job's base cannot be submitted: " + why);
  });
}

bool FirstBase::submit_anew(JobId id) {
  if (++anew_ > kMostAnew) return false;
  spdlog::warn(
      "espalier: launch: base {} was granted and given back before this launcher saw it run, as while Slurm has job {} "
      "suspended; another one is submitted and waits in its place",
      id, context_.job);
  submit();
  return true;
}

// Its keepers look for the launcher that submitted it, and then for this one, by the rank servers that are started
// beside them.
void FirstBase::take_over(JobId id, const BaseShape& shape) {
  jobs_.add(id, shape);
  if (stopped_) return jobs_.release(id);
  waits_ = id;
  spdlog::info("espalier: launch: base {}, which an earlier launcher of job {} has submitted, waits on", id,
               context_.job);
  callbacks_.changed();
}

void FirstBase::steer(JobId base, const std::string& nodes) {
  if (base == waits_ && base != 0 && !stopped_) submission_.steer(base, jobs_.at(base).shape, nodes);
}

void FirstBase::granted() {
  const JobId id = std::exchange(waits_, 0);
  anew_ = 0;
  if (current_.id() != 0) arrived_ = id;
}

void FirstBase::give_back_waiting() {
  if (waits_ != 0) jobs_.release(std::exchange(waits_, 0));
}

void FirstBase::give_back_arrived(const std::string& why) {
  if (arrived_ == 0) return;
  spdlog::warn("espalier: launch: base {} is given back: {}; training stays on base {}", arrived_, why, current_.id());
  jobs_.release(std::exchange(arrived_, 0));
}

void FirstBase::move_failed() {
  if (++tries_ == kMostTries) give_back_arrived(std::to_string(tries_) + " moves to it have failed");
}

void FirstBase::refused(const std::string& why) const {
  if (current_.id() == 0) return callbacks_.refused(why);
  spdlog::warn("espalier: launch: {}; training stays on base {}", why, current_.id());
}

bool FirstBase::ended(JobId id) {
  if (id == arrived_) arrived_ = 0;
  return id == waits_ && std::exchange(waits_, 0) != 0;
}

void FirstBase::stop() {
  submission_.stop();
  stopped_ = true;
}

std::vector<NodeView> FirstBase::arrived_nodes() const {
  const BaseJobs::Base* arrived = jobs_.find(arrived_);
  return arrived != nullptr ? arrived->nodes : std::vector<NodeView>();
}

}  // namespace espalier::launcher
