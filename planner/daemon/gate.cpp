#include "planner/daemon/gate.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"

namespace espalier {

bool is_administrator(uid_t uid, uid_t slurm_user) { return uid == 0 || uid == slurm_user || uid == ::geteuid(); }

void Gate::welcome(const wire::ConnectionPtr& link) {
  // The connection keeps itself alive until it closes; a strong reference in its own callbacks would keep it for ever.
  const std::weak_ptr<wire::Connection> weak = link;
  link->on_frame = [this, weak](const wire::Frame& frame) {
    const auto self = weak.lock();
    if (!self) return;
    try {
      handle(self, frame);
    } catch (const std::exception& error) {
      // A question that has no answer is everyday; anything else is a broken or hostile peer.
      const auto level = frame.type == wire::Query::type ? spdlog::level::debug : spdlog::level::warn;
      spdlog::log(level, "{} (uid {}): {} refused: {}", self->peer().address, self->peer().uid,
                  frame.type.substr(0, 40), error.what());
      self->send(wire::Refused{error.what()});
      if (const auto job = planner_.job_of(*self)) planner_.lost(*job, self);
      self->close();
    }
  };
  link->on_closed = [this, weak](const std::string&) {
    const auto self = weak.lock();
    if (!self) return;
    if (const auto job = planner_.job_of(*self)) planner_.lost(*job, self);
  };
}

void Gate::handle(const wire::ConnectionPtr& link, const wire::Frame& frame) {
  if (frame.type == wire::Query::type) {
    link->send(wire::Reply{on_query_(wire::from_frame<wire::Query>(frame), link->peer())});
  } else if (frame.type == wire::Topology::type) {
    topology(link->peer(), wire::from_frame<wire::Topology>(frame));
  } else if (frame.type == wire::Register::type) {
    const auto message = wire::from_frame<wire::Register>(frame);
    if (const auto job = planner_.job_of(*link); job && *job != message.job.id)
      throw Error("this connection is of job " + std::to_string(*job));
    planner_.admit(link, message);
  } else {
    from_launcher(link, frame);
  }
}

void Gate::from_launcher(const wire::ConnectionPtr& link, const wire::Frame& frame) {
  const auto job = planner_.job_of(*link);
  if (!job) throw Error("not registered; only \"register\" and \"query\" are taken before");
  const auto own = [&](JobId named) {
    if (named != *job)
      throw Error("names job " + std::to_string(named) + "; this connection is of job " + std::to_string(*job));
  };
  if (frame.type == wire::Status::type) {
    planner_.status(*job, wire::from_frame<wire::Status>(frame).job);
  } else if (frame.type == wire::Transition::type) {
    const auto message = wire::from_frame<wire::Transition>(frame);
    own(message.job);
    planner_.transition(message);
  } else if (frame.type == wire::Outcome::type) {
    const auto message = wire::from_frame<wire::Outcome>(frame);
    own(message.job);
    planner_.outcome(message);
  } else if (frame.type == wire::Bye::type) {
    const auto message = wire::from_frame<wire::Bye>(frame);
    own(message.job);
    planner_.bye(message.job, message.exit_code);
    link->on_frame = [](const wire::Frame&) {};  // nothing it may still say matters
  } else {
    throw Error("no such message from a launcher");
  }
}

void Gate::topology(const wire::Peer& peer, const wire::Topology& message) {
  if (!is_administrator(peer.uid, planner_.slurm_user())) throw Error("topology is taken from root and SlurmUser only");
  if (message.node.empty() || message.node.size() > 255) throw Error("topology: no node name");
  if (!message.xml.starts_with("<?xml")) throw Error("topology of " + message.node + ": not XML");
  planner_.store().save_topology(message.node, message.xml, clock_seconds());
  spdlog::info("node {}: topology received, {} bytes", message.node, message.xml.size());
}

}  // namespace espalier
