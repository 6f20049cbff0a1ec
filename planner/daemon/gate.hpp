// Who may say what to the planner. Every connection arrives here authenticated; its peer's uid comes from MUNGE or the
// kernel, never from a message.
#pragma once

#include <sys/resource.h>

#include <map>
#include <memory>

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
  // Counts a connection of `uid` for as long as the result lives; nullptr: the user has too many.
  std::shared_ptr<void> take_seat(uid_t uid);
  void handle(const wire::ConnectionPtr& link, const wire::Frame& frame);
  void from_launcher(const wire::ConnectionPtr& link, const wire::Frame& frame);
  void topology(const wire::Peer& peer, const wire::Topology& message);

  Planner& planner_;
  OnQuery on_query_;
  std::shared_ptr<std::map<uid_t, rlim_t>> seats_ = std::make_shared<std::map<uid_t, rlim_t>>();
};

}  // namespace espalier
