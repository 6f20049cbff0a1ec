// The launcher's connection to espalierd. Registers after every connect, reports, and takes proposals. The job does not
// depend on it: without a planner the job trains on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/wire/grant_message.hpp"
#include "planner/wire/movable_message.hpp"
#include "planner/wire/server.hpp"
#include "planner/wire/start_messages.hpp"

namespace espalier::launcher {

class PlannerLink {
 public:
  struct Callbacks {
    std::function<ElasticJob()> state;  // asked for at every registration
    // Called before `proposed`, where extensions need grants.
    std::function<void(const std::vector<ExtensionRequest>&, const std::vector<std::string>& grants)> granted;
    std::function<void(const Decision&)> proposed;
    std::function<void(const wire::SteerBase&)> steered;
    std::function<void(const wire::WithdrawBase&)> withdrawn;
    std::function<void(const wire::Known&)> known;
    std::function<void(const std::string& reason)> unplanned;    // no plan of generation 0 comes
    std::function<void(const wire::DeadlineChecked&)> deadline;  // before the plan of generation 0
    std::function<void()> registered;                            // the planner knows this launcher now
    std::function<void(const std::string&)> unreachable;         // once per outage
    std::function<void(const std::string&)> refused;  // the planner refuses this launcher; once until it registers
  };
  PlannerLink(wire::Loop& loop, const std::string& host, std::uint16_t port, std::vector<uid_t> planner_uids,
              Callbacks callbacks);

  // The planner has registered this launcher: what is reported is sent.
  bool registered() const { return registered_ && dialler_->connection(); }
  // The planner knows that the running generation may go on with another plan.
  bool knows_in_place() const { return in_place_; }
  // Sends `message` if the planner has registered this launcher, else drops it.
  template <class Message>
  void report(const Message& message) {
    if (registered()) dialler_->connection()->send(message);
  }
  // An outcome must not be lost with the connection. If it cannot be sent, it is kept (up to 64) and sent after the
  // next registration. The outcome of the last decision is sent again after every registration.
  void report_outcome(const wire::Outcome& outcome);
  // Sends the last message. Nothing is reported after it.
  void leave(const wire::Bye& bye);

 private:
  void connected(const wire::ConnectionPtr& connection);

  Callbacks callbacks_;
  std::optional<wire::Grants> grants_;  // of the decision that is about to be proposed
  bool registered_ = false, refused_ = false, left_ = false, in_place_ = false;
  std::optional<wire::Outcome> last_;
  std::vector<wire::Outcome> unsent_;
  std::unique_ptr<wire::Dialler> dialler_;
};

}  // namespace espalier::launcher
