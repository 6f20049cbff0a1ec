#include "launcher/job/planner_link.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "planner/core/error.hpp"

namespace espalier::launcher {

namespace {
constexpr std::size_t kMaxUnsent = 64;
}

PlannerLink::PlannerLink(wire::Loop& loop, const std::string& host, std::uint16_t port, std::vector<uid_t> planner_uids,
                         Callbacks callbacks)
    : callbacks_(std::move(callbacks)) {
  dialler_ = wire::dial_tcp(
      loop, wire::planner_caller(std::move(planner_uids)), host, port,
      [this](const wire::ConnectionPtr& connection) { connected(connection); },
      [this](const std::string& why) {
        if (!refused_) callbacks_.unreachable(why);
      });
}

void PlannerLink::connected(const wire::ConnectionPtr& connection) {
  if (left_) return;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  connection->on_closed = [this](const std::string&) { registered_ = false; };
  connection->on_frame = [this](const wire::Frame& frame) {
    try {
      if (frame.type == wire::Registered::type) {
        registered_ = true;
        refused_ = false;
        in_place_ = wire::from_frame<wire::Registered>(frame).in_place;
        if (last_) report(*last_);  // the planner that it was sent to may have died before it stored it
        for (const wire::Outcome& outcome : unsent_) report(outcome);
        unsent_.clear();
        callbacks_.registered();
      } else if (frame.type == wire::Propose::type) {
        const Decision decision = wire::from_frame<wire::Propose>(frame).decision;
        if (grants_ && grants_->decision == decision.id && callbacks_.granted)
          callbacks_.granted(decision.acquire, grants_->grants);
        grants_.reset();
        callbacks_.proposed(decision);
      } else if (frame.type == wire::SteerBase::type) {
        callbacks_.steered(wire::from_frame<wire::SteerBase>(frame));
      } else if (frame.type == wire::WithdrawBase::type) {
        callbacks_.withdrawn(wire::from_frame<wire::WithdrawBase>(frame));
      } else if (frame.type == wire::Grants::type) {
        grants_ = wire::from_frame<wire::Grants>(frame);
      } else if (frame.type == wire::Unplanned::type) {
        callbacks_.unplanned(wire::from_frame<wire::Unplanned>(frame).reason);
      } else if (frame.type == wire::DeadlineChecked::type) {
        callbacks_.deadline(wire::from_frame<wire::DeadlineChecked>(frame));
      } else if (frame.type == wire::Known::type) {
        callbacks_.known(wire::from_frame<wire::Known>(frame));
      } else if (frame.type == wire::Refused::type) {
        // A refusal may pass, e.g. when another launcher of the job ends, or when Slurm tells the planner of the job.
        // So the dialler goes on trying.
        if (!refused_) callbacks_.refused(wire::from_frame<wire::Refused>(frame).reason);
        refused_ = true;
      }
    } catch (const Error& error) {
      spdlog::warn("espalier: launch: planner: {}; ignored", error.what());
    }
  };
  wire::Register message{callbacks_.state(), host, static_cast<int>(::getpid())};
  // A newcomer's frame is small. Beside a large plan the first status tells them.
  if (message.job.plan) message.job.parallel.lists.clear();
  connection->send(message);
}

void PlannerLink::report_outcome(const wire::Outcome& outcome) {
  if (outcome.decision != 0) last_ = outcome;
  if (registered()) report(outcome);
  else if (unsent_.size() < kMaxUnsent) unsent_.push_back(outcome);
}

void PlannerLink::leave(const wire::Bye& bye) {
  report(bye);
  registered_ = false;
  left_ = true;  // a connection that is lost and comes back does not register again
}

}  // namespace espalier::launcher
