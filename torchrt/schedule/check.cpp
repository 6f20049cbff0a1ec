#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "torchrt/schedule/lane_queues.hpp"
#include "torchrt/schedule/op.hpp"
#include "torchrt/schedule/rank_check.hpp"

namespace espalier::torchrt {

namespace {

// What ranks do with each other: messages, collectives, and operations in which they meet.
class Checker {
 public:
  Checker(const Schedule& schedule, Messages messages)
      : schedule_(schedule), started_(schedule.ranks.size()), lanes_(schedule.ranks, messages) {
    ranks_.reserve(schedule.ranks.size());
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
      ranks_.emplace_back(schedule, static_cast<int>(r), problems_);
  }
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  std::vector<std::string> run() {
    if (schedule_.ranks.size() != schedule_.layout.ranks.size()) return {"the schedule and the layout differ in ranks"};
    for (bool progress = true; progress && problems_.empty();) {
      progress = false;
      for (RankCheck& rank : ranks_)
        while (problems_.empty() && !rank.at_end() && step(rank)) progress = true;
      progress = meet() || progress;
    }
    if (problems_.empty()) finish();
    return problems_;
  }

 private:
  // Runs one operation of one rank; false when it must wait. Operations that several ranks do
  // together wait for meet().
  bool step(RankCheck& rank) {
    const Op& op = rank.now();
    if (!rank.holds_chunk()) {
      rank.problem("the chunk is not of this rank");
      return false;
    }
    if (is_receive(op.kind)) return receive(rank);
    if (rank.waits()) return false;
    const bool together = rank.place().tp > 1 && (op.kind == OpKind::forward || op.kind == OpKind::backward);
    if (together || op.kind == OpKind::agree) return false;
    if (op.kind == OpKind::finish_reduce || op.kind == OpKind::finish_gather) {
      rank.expect(rank.has_started(op), "was never started");
      if (!problems_.empty() || !all_started(rank, op)) return false;
    }
    if (is_send(op.kind)) send(rank);
    else rank.work();
    if (op.kind == OpKind::reduce || op.kind == OpKind::gather) start(rank, op);
    rank.go_on();
    return true;
  }

  bool receive(RankCheck& rank) {
    if (!rank.has_peer()) {
      rank.problem("there is no such rank");
      return false;
    }
    rank.receive();
    begin_transfer(rank);
    rank.go_on();
    return true;
  }

  void send(RankCheck& rank) {
    if (!rank.has_peer()) return rank.problem("there is no such rank");
    rank.send();
    begin_transfer(rank);
  }

  void begin_transfer(const RankCheck& rank) {
    for (const LaneQueues::Arrival& arrival : lanes_.begin(rank.rank(), rank.next())) {
      RankCheck& there = ranks_[static_cast<std::size_t>(arrival.rank)];
      if (!arrival.matches) there.problem(arrival.place, "the sender sends something else");
      there.arrived(arrival.place);
    }
  }

  // Checks that all members of a group start the same collectives in the same order.
  void start(RankCheck& rank, const Op& op) {
    std::vector<std::pair<OpKind, int>>& order = collectives_[{rank.place().stage, rank.place().tp_rank}];
    std::size_t& started = started_[static_cast<std::size_t>(rank.rank())];
    if (started == order.size()) order.push_back({op.kind, op.unit});
    rank.expect(order[started] == std::pair(op.kind, op.unit), "the group's other ranks start another one");
    ++started;
  }

  bool all_started(const RankCheck& rank, const Op& op) const {
    const StageLayout& stage = schedule_.layout.stages[static_cast<std::size_t>(rank.place().stage)];
    for (int j = 0; j < stage.replicas; ++j)
      if (!ranks_[static_cast<std::size_t>(stage.rank(j, rank.place().tp_rank))].has_started(op)) return false;
    return true;
  }

  // Runs the operations that ranks do together: tensor-parallel work, and the agreement of all
  // ranks.
  bool meet() {
    bool progress = false;
    for (const StageLayout& stage : schedule_.layout.stages)
      for (int j = 0; stage.tp > 1 && j < stage.replicas; ++j)
        progress = meet_replica(stage.rank(j, 0), stage.tp) || progress;
    return meet_all() || progress;
  }

  bool meet_replica(int first, int size) {
    const Op* common = nullptr;
    for (int r = first; r < first + size; ++r) {
      RankCheck& rank = ranks_[static_cast<std::size_t>(r)];
      if (rank.at_end()) return false;
      const Op& op = rank.now();
      if ((op.kind != OpKind::forward && op.kind != OpKind::backward) || rank.waits()) return false;
      if (common && !(op == *common)) {
        rank.problem("the replica's other ranks do something else");
        return false;
      }
      common = &op;
    }
    for (int r = first; r < first + size && problems_.empty(); ++r) {
      RankCheck& rank = ranks_[static_cast<std::size_t>(r)];
      rank.work();
      rank.go_on();
    }
    return true;
  }

  bool meet_all() {
    for (const RankCheck& rank : ranks_)
      if (rank.at_end() || rank.now().kind != OpKind::agree) return false;
    for (RankCheck& rank : ranks_) {
      rank.agree();
      rank.go_on();
    }
    return true;
  }

  void finish() {
    for (RankCheck& rank : ranks_)
      if (rank.at_end()) rank.finish();
      else rank.problem("waits for ever");
    if (!problems_.empty()) return;
    const std::vector<std::string> left = lanes_.left();
    problems_.insert(problems_.end(), left.begin(), left.end());
  }

  const Schedule& schedule_;
  std::vector<std::string> problems_;  // of ranks_, too
  std::vector<RankCheck> ranks_;
  std::map<std::pair<int, int>, std::vector<std::pair<OpKind, int>>> collectives_;  // by stage and TP rank
  std::vector<std::size_t> started_;  // by rank: how many of its group's collectives
  LaneQueues lanes_;
};

}  // namespace

std::vector<std::string> check(const Schedule& schedule, Messages messages) {
  return Checker(schedule, messages).run();
}

}  // namespace espalier::torchrt
