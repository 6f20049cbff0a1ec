// Who may say what to the planner. Every connection arrives here authenticated; its peer's uid comes from MUNGE or the
// kernel, never from a message.
#pragma once

#include <sys/resource.h>

#include <map>
#include <memory>

#include "planner/daemon/allowance.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/wire/server.hpp"

namespace espalier {

// Root, SlurmUser, and the user the daemon itself runs as.
bool is_administrator(uid_t uid, uid_t slurm_user);

class Gate {
 public:
  using OnQuery =
      std::function<Json(const wire::Query&, const wire::Peer&)>;  // throws Error: refused with that message
  Gate(Planner& planner, OnQuery on_query) : planner_(planner), on_query_(std::move(on_query)) {}

  void welcome(const wire::ConnectionPtr& link);

 private:
  bool trusts(uid_t uid) const { return is_administrator(uid, planner_.slurm_user()); }
  // Counts a connection of `uid` for as long as the result lives, its last unread words included; nullptr: the user has
  // too many.
  std::shared_ptr<void> take_seat(uid_t uid);
  // How many messages of `uid` have come of late, whatever connections they came on.
  std::shared_ptr<Allowance> pace_of(uid_t uid);
  void handle(const wire::ConnectionPtr& link, const wire::Frame& frame);
  void from_launcher(const wire::ConnectionPtr& link, const wire::Frame& frame);
  void topology(const wire::Peer& peer, const wire::Topology& message);

  Planner& planner_;
  OnQuery on_query_;
  std::shared_ptr<std::map<uid_t, rlim_t>> seats_ = std::make_shared<std::map<uid_t, rlim_t>>();
  std::map<uid_t, std::shared_ptr<Allowance>> paces_;
};

}  // namespace espalier
