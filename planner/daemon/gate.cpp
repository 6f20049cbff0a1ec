#include "planner/daemon/gate.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/printable.hpp"
#include "planner/wire/links_field.hpp"

namespace espalier {
namespace {

// A launcher reports about once a second. Beyond these rates a user's messages are refused. The
// first number limits a burst, the second the messages per second. kFramesPerWeight is added for each
// elastic job and each GPU of the user (Planner::weight_of). All together are at most kMostFrames.
constexpr Allowance::Rate kFrames{500, 100}, kFramesPerWeight{50, 10}, kMostFrames{100'000, 20'000};
// Connections of one user. One more is allowed for each of the user's jobs.
constexpr std::size_t kMostSeats = 64;
constexpr std::size_t kMostXml = 4u << 20;
// Bytes of unfinished messages of one user: 128 newcomers may each be within their first message. A launcher's message
// grows with its job's GPUs.
constexpr std::size_t kMostInput = 32u << 20, kMostInputPerJob = 16u << 10, kMostInputPerWeight = 4096;
constexpr double kLongestRest = 60;  // seconds; a clock that is set back must not stop a user

Allowance::Rate frame_rate(std::size_t weight) {
  const auto count = static_cast<double>(weight);
  return {std::min(kMostFrames.most, kFrames.most + count * kFramesPerWeight.most),
          std::min(kMostFrames.per_second, kFrames.per_second + count * kFramesPerWeight.per_second)};
}

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
  bound_cost(link);
  link->on_frame = [this, weak, pace = pace_of(link->peer().uid),
                    dialogue = QuestionDesk::dialogue(link)](const wire::Frame& frame) {
    const auto self = weak.lock();
    if (!self) return;
    try {
      const uid_t uid = self->peer().uid;
      const std::size_t weight = planner_.weight_of(uid);
      if (!pace->take(clock_seconds(), frame_rate(weight))) throw Error("too many messages");
      if (!trusts(uid) && !received_.take(uid, weight, clock_seconds(), static_cast<double>(frame.bytes)))
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

std::shared_ptr<wire::Connection::Input> Gate::input_of(uid_t uid) {
  std::erase_if(inputs_, [](const auto& entry) { return entry.second.expired(); });
  auto input = inputs_[uid].lock();
  if (!input) inputs_[uid] = input = std::make_shared<wire::Connection::Input>();
  input->most = kMostInput + kMostInputPerJob * planner_.jobs_of(uid) + kMostInputPerWeight * planner_.weight_of(uid);
  return input;
}

void Gate::bound_cost(const wire::ConnectionPtr& link) {
  const uid_t uid = link->peer().uid;
  if (trusts(uid)) return;
  link->pending = input_of(uid);
  link->may_take = [this, uid, weak = std::weak_ptr(link)] { return may_take(uid, weak); };
  link->on_taken = [this, uid](double seconds) { planner_.charge_time(uid, seconds); };
}

bool Gate::may_take(uid_t uid, const std::weak_ptr<wire::Connection>& link) {
  if (trusts(uid) || planner_.time_until(uid) <= 0) return true;
  resting_[uid].links.push_back(link);
  wake_later(uid);
  return false;
}

// One timer for all connections of a user: thousands that each look for themselves would cost more than they wait for.
void Gate::wake_later(uid_t uid) {
  Resting& rest = resting_.at(uid);
  if (rest.later) return;
  const double wait = std::min(kLongestRest, planner_.time_until(uid));
  const auto milliseconds = std::max(1L, std::lround(std::ceil(1000 * wait)));
  rest.later = planner_.loop().after(wire::Loop::Milliseconds(milliseconds), [this, uid] { wake(uid); });
}

// Who has waited longest goes on first. A connection that must rest again waits behind the others.
void Gate::wake(uid_t uid) {
  resting_.at(uid).later.reset();
  std::size_t waiting = resting_.at(uid).links.size();
  for (; waiting > 0 && planner_.time_until(uid) <= 0; --waiting) {
    const auto link = resting_.at(uid).links.front().lock();
    resting_.at(uid).links.pop_front();
    if (link) link->resume();
  }
  if (resting_.at(uid).links.empty()) resting_.erase(uid);
  else wake_later(uid);
}

void Gate::refuse(const wire::ConnectionPtr& link, const std::string& type, const std::string& problem) {
  // A query without an answer is common. Any other refused message comes from a broken or hostile
  // peer, who may send the next one at once.
  const auto level = type == wire::Query::type ? spdlog::level::debug : spdlog::level::warn;
  const std::string why = printable(problem);
  const uid_t uid = link->peer().uid;
  const std::string line =
      fmt::format("{} (uid {}): {} refused: {}", link->peer().address, uid, printable(type, 40), why);
  if (trusts(uid)) spdlog::log(level, "{}", line);  // a site's own nodes may all be refused for one reason
  else planner_.log().line(uid, level, "{}", line);
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
    planner_.looked(*job, wire::links_of(frame));
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
