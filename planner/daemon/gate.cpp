#include "planner/daemon/gate.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

// A launcher reports about once a second. Beyond these rates a user's messages are refused. The
// first number limits a burst, the second the messages per second. kFramesPerJob is added for each
// of the user's jobs.
constexpr Allowance::Rate kFrames{500, 100}, kFramesPerJob{100, 20};
// Connections of one user. One more is allowed for each of the user's jobs.
constexpr std::size_t kMostSeats = 64;
constexpr std::size_t kMostXml = 4u << 20;

}  // namespace

bool is_administrator(uid_t uid, uid_t slurm_user) { return uid == 0 || uid == slurm_user || uid == ::geteuid(); }

Gate::Gate(Planner& planner, QuestionDesk::Sources questions)
    : planner_(planner),
      desk_(
          std::move(questions),
          {[this](uid_t uid) { return trusts(uid); }, [this](uid_t uid) { return unread_of(uid); },
           [this](const wire::ConnectionPtr& link, const std::string& why) { refuse(link, wire::Query::type, why); }}) {
}

// One user's connections must not use up the daemon's memory and descriptors: other users, Slurm
// and MUNGE need them.
std::shared_ptr<void> Gate::take_seat(uid_t uid) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  const rlim_t most = std::min<rlim_t>(kMostSeats, limit.rlim_cur / 4) + planner_.jobs_of(uid);
  if (!trusts(uid) && (*seats_)[uid] >= most) return nullptr;
  ++(*seats_)[uid];
  return {seats_.get(), [seats = seats_, uid](void*) {
            if (--(*seats)[uid] == 0) seats->erase(uid);
          }};
}

std::shared_ptr<Allowance> Gate::pace_of(uid_t uid) {
  // All nodes report their topologies as root when a cluster starts. Each administrator's
  // connection therefore has an allowance of its own.
  if (trusts(uid)) return std::make_shared<Allowance>();
  std::erase_if(paces_, [now = clock_seconds()](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->unused(now, kFrames);
  });
  auto& pace = paces_[uid];
  if (!pace) pace = std::make_shared<Allowance>();
  return pace;
}

void Gate::welcome(const wire::ConnectionPtr& link) {
  link->seat = take_seat(link->peer().uid);
  if (!link->seat) {
    link->send(wire::Refused{"uid " + std::to_string(link->peer().uid) + " has too many connections; close some"});
    link->close();
    return;
  }
  auto& links = links_[link->peer().uid];
  std::erase_if(links, [](const auto& one) { return one.expired(); });
  links.push_back(link);
  link->limit_frames(trusts(link->peer().uid) ? wire::kMaxFrame : wire::kMaxNewcomer, wire::kFrameTime);
  // The connection keeps itself alive until it closes. A strong reference in its own callbacks
  // would keep it for ever.
  const std::weak_ptr<wire::Connection> weak = link;
  link->on_frame = [this, weak, pace = pace_of(link->peer().uid),
                    dialogue = QuestionDesk::dialogue(link)](const wire::Frame& frame) {
    const auto self = weak.lock();
    if (!self) return;
    try {
      const auto jobs = static_cast<double>(planner_.jobs_of(self->peer().uid));
      if (!pace->take(clock_seconds(),
                      {kFrames.most + jobs * kFramesPerJob.most, kFrames.per_second + jobs * kFramesPerJob.per_second}))
        throw Error("too many messages");
      if (!trusts(self->peer().uid) && !received_.take(self->peer().uid, planner_.jobs_of(self->peer().uid),
                                                       clock_seconds(), static_cast<double>(frame.bytes)))
        throw Error("too many bytes of messages");
      handle(self, dialogue, frame);
    } catch (const std::exception& error) {
      refuse(self, frame.type, error.what());
    }
  };
  link->on_closed = [this, weak](const std::string&) {
    const auto self = weak.lock();
    if (!self) return;
    if (const auto job = planner_.job_of(*self)) planner_.lost(*job, self);
  };
}

void Gate::refuse(const wire::ConnectionPtr& link, const std::string& type, const std::string& problem) {
  // A query without an answer is common. Any other refused message comes from a broken or hostile
  // peer.
  const auto level = type == wire::Query::type ? spdlog::level::debug : spdlog::level::warn;
  const std::string why = printable(problem);
  spdlog::log(level, "{} (uid {}): {} refused: {}", link->peer().address, link->peer().uid, printable(type, 40), why);
  link->send(wire::Refused{why});
  if (const auto job = planner_.job_of(*link)) planner_.lost(*job, link);
  link->close();
}

void Gate::handle(const wire::ConnectionPtr& link, const QuestionDesk::DialoguePtr& dialogue,
                  const wire::Frame& frame) {
  if (frame.type == wire::Query::type) {
    desk_.ask(dialogue, wire::from_frame<wire::Query>(frame), frame.bytes);
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

std::size_t Gate::unread_of(uid_t uid) {
  const auto found = links_.find(uid);
  if (found == links_.end()) return 0;
  std::size_t sum = 0;
  for (const auto& weak : found->second)
    if (const auto link = weak.lock()) sum += link->unread();
  return sum;
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
  } else if (frame.type == wire::BasesHeld::type) {
    const auto message = wire::from_frame<wire::BasesHeld>(frame);
    own(message.job);
    planner_.bases(message);
  } else if (frame.type == wire::Bye::type) {
    const auto message = wire::from_frame<wire::Bye>(frame);
    own(message.job);
    planner_.bye(message.job, message.exit_code);
    link->on_frame = [](const wire::Frame&) {};  // further messages are ignored
  } else {
    // A launcher of a newer version may say more, and goes on without an answer.
    spdlog::debug("job {}: message {} of its launcher is not known here, and ignored; are both of the same version?",
                  *job, printable(frame.type, 40));
  }
}

void Gate::topology(const wire::Peer& peer, const wire::Topology& message) {
  if (!trusts(peer.uid)) throw Error("topology is taken from root and SlurmUser only");
  if (message.node.empty() || message.node.size() > 255) throw Error("topology: no node name");
  if (!message.xml.starts_with("<?xml")) throw Error("topology of " + message.node + ": not XML");
  if (message.xml.size() > kMostXml) throw Error("topology of " + message.node + ": larger than any node's");
  planner_.topology_reported(message.node, message.xml);
  spdlog::info("node {}: topology received, {} bytes", message.node, message.xml.size());
}

}  // namespace espalier
