// The launcher's line to espalierd: registers after every (re)connect, reports, and takes proposals. The job never
// depends on it: without a planner it trains on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "planner/wire/server.hpp"

namespace espalier::launcher {

class PlannerLink {
 public:
  struct Callbacks {
    std::function<ElasticJob()> state;  // for (re)registering
    std::function<void(const Decision&)> proposed;
    std::function<void(const std::string&)> unreachable;  // once per outage
    std::function<void(const std::string&)> refused;      // the planner wants nothing to do with this launcher
  };
  PlannerLink(wire::Loop& loop, const std::string& host, std::uint16_t port, std::vector<uid_t> planner_uids,
              Callbacks callbacks);

  template <class Message>
  void report(const Message& message) {
    if (registered_ && dialler_->connection()) dialler_->connection()->send(message);
  }
  // An outcome must not be lost with the connection: it is kept and sent again after the next registration.
  void report_outcome(const wire::Outcome& outcome);
  // The last word: nothing is reported after it.
  void leave(const wire::Bye& bye);

 private:
  void connected(const wire::ConnectionPtr& connection);

  Callbacks callbacks_;
  bool registered_ = false, refused_ = false, left_ = false;
  std::optional<wire::Outcome> last_;
  std::vector<wire::Outcome> unsent_;
  std::unique_ptr<wire::Dialler> dialler_;
};

}  // namespace espalier::launcher
