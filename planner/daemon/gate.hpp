// Decides which peer may send which message to the planner. Every connection is already
// authenticated. The peer's uid comes from MUNGE or the kernel, never from a message.
#pragma once

#include <sys/resource.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "planner/daemon/allowance.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/question_desk.hpp"
#include "planner/wire/server.hpp"

namespace espalier {

// Root, SlurmUser and the user that the daemon runs as.
bool is_administrator(uid_t uid, uid_t slurm_user);

class Gate {
 public:
  // `questions`: who answers them.
  Gate(Planner& planner, QuestionDesk::Sources questions);
  // All questions are answered at once.
  Gate(Planner& planner, QuestionDesk::OnQuery answer) : Gate(planner, QuestionDesk::Sources{std::move(answer)}) {}

  void welcome(const wire::ConnectionPtr& link);

 private:
  bool trusts(uid_t uid) const { return is_administrator(uid, planner_.slurm_user()); }
  // Counts a connection of `uid` until the result is destroyed with the connection. A closing
  // connection still counts. nullptr: the user has too many connections.
  std::shared_ptr<void> take_seat(uid_t uid);
  // What bounds the cost of the messages of `link`, an ordinary user's.
  void bound_cost(const wire::ConnectionPtr& link);
  // Whether a message of the user may be read now. Otherwise `link` goes on when the user has time again.
  bool may_take(uid_t uid, const std::weak_ptr<wire::Connection>& link);
  void wake_later(uid_t uid);
  void wake(uid_t uid);
  // Bytes of messages that have not come as a whole, over all connections of `uid`.
  std::shared_ptr<wire::Connection::Input> input_of(uid_t uid);
  // The message allowance of `uid`. All connections of a user share it, but each administrator's
  // connection has its own.
  std::shared_ptr<Allowance> pace_of(uid_t uid);
  void handle(const wire::ConnectionPtr& link, const QuestionDesk::DialoguePtr& dialogue, const wire::Frame& frame);
  void from_launcher(const wire::ConnectionPtr& link, const wire::Frame& frame);
  void topology(const wire::Peer& peer, const wire::Topology& message);
  void refuse(const wire::ConnectionPtr& link, const std::string& type, const std::string& problem);
  // Bytes of answers that the user's connections have not taken yet.
  std::size_t unread_of(uid_t uid);

  Planner& planner_;
  std::shared_ptr<std::map<uid_t, rlim_t>> seats_ = std::make_shared<std::map<uid_t, rlim_t>>();
  std::map<uid_t, std::shared_ptr<Allowance>> paces_;
  std::map<uid_t, std::vector<std::weak_ptr<wire::Connection>>> links_;
  // Connections of which nothing is read, because their user has taken too much of the loop's time; oldest first.
  struct Resting {
    std::deque<std::weak_ptr<wire::Connection>> links;
    wire::Watch later;
  };
  std::map<uid_t, Resting> resting_;
  std::map<uid_t, std::weak_ptr<wire::Connection::Input>> inputs_;
  // Bytes of an ordinary user's messages. A report of a job of n GPUs has some 4 KiB for each.
  Spending received_{{16 << 20, 1 << 20}, {1 << 20, 64 << 10}, {512 << 20, 64 << 20}};
  QuestionDesk desk_;
};

}  // namespace espalier
