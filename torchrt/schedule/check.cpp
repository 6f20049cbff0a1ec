#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

namespace {

// A message in flight: (sender, receiver, gradient?, micro-batch) -> sample range.
using Address = std::tuple<int, int, bool, int>;
using Range = std::pair<int, int>;

class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule), states_(schedule.ranks.size()) {
    for (std::size_t r = 0; r < states_.size(); ++r) states_[r].rank = static_cast<int>(r);
  }

  std::vector<std::string> run() {
    if (schedule_.ranks.size() != schedule_.layout.ranks.size()) return {"the schedule and the layout differ in ranks"};
    for (bool progress = true; progress && problems_.empty();) {
      progress = false;
      for (State& state : states_)
        while (problems_.empty() && state.next < ops(state).size() && step(state)) progress = true;
      progress = meet() || progress;
    }
    if (problems_.empty()) finish();
    return problems_;
  }

 private:
  struct State {
    int rank = 0;
    std::size_t next = 0;
    std::map<int, int> activations, gradients;  // samples received, by micro-batch
    std::set<int> forwarded, backwarded;
    std::map<int, int> sent_activations, sent_gradients;
    std::set<int> reduced, updated;
    bool agreed = false;
  };

  const std::vector<Op>& ops(const State& state) const { return schedule_.ranks[state.rank]; }
  const RankLayout& place(const State& state) const { return schedule_.layout.ranks[state.rank]; }
  int micro_batches() const { return schedule_.layout.micro_batches; }
  bool replicated(const State& state) const { return schedule_.layout.stage_ranks[place(state).stage].size() > 1; }

  void problem(const State& state, const std::string& text) {
    problems_.push_back("rank " + std::to_string(state.rank) + ", operation " + std::to_string(state.next) + " (" +
                        describe(ops(state)[state.next]) + "): " + text);
  }
  void expect(bool condition, const State& state, const char* text) {
    if (!condition) problem(state, text);
  }

  // One operation of one rank; false when it must wait. Collectives wait in meet().
  bool step(State& state) {
    const Op& op = ops(state)[state.next];
    const RankLayout& self = place(state);
    const int m = op.micro_batch;
    switch (op.kind) {
      case OpKind::receive_activation:
        return receive(state, op, state.activations);
      case OpKind::receive_gradient:
        return receive(state, op, state.gradients);
      case OpKind::send_activation:
        expect(state.forwarded.count(m) == 1, state, "the activation does not exist yet");
        return send(state, op, state.sent_activations);
      case OpKind::send_gradient:
        expect(state.backwarded.count(m) == 1, state, "the gradient does not exist yet");
        return send(state, op, state.sent_gradients);
      case OpKind::forward:
        expect(m >= 0 && m < micro_batches(), state, "no such micro-batch");
        expect(state.forwarded.insert(m).second, state, "the micro-batch is done twice");
        expect(self.first_stage || state.activations[m] == self.samples, state, "its input is incomplete");
        break;
      case OpKind::backward:
        expect(state.forwarded.count(m) == 1, state, "no forward came before");
        expect(state.backwarded.insert(m).second, state, "the micro-batch is done twice");
        expect(static_cast<int>(state.backwarded.size()) == m + 1, state,
               "backwards must come in order of micro-batches");
        expect(self.last_stage || state.gradients[m] == self.samples, state, "its gradient is incomplete");
        break;
      case OpKind::update:
        expect(state.agreed, state, "the ranks have not agreed on the norm");
        expect(owns(self, op.unit), state, "the unit is not of this rank");
        expect(state.updated.insert(op.unit).second, state, "the unit is updated twice");
        break;
      case OpKind::reduce:
      case OpKind::agree:
        return false;
    }
    ++state.next;
    return true;
  }

  static bool owns(const RankLayout& rank, int unit) {
    return std::find(rank.units.begin(), rank.units.end(), unit) != rank.units.end();
  }

  bool receive(State& state, const Op& op, std::map<int, int>& received) {
    const auto found = flying_.find({op.peer, state.rank, op.kind == OpKind::receive_gradient, op.micro_batch});
    if (found == flying_.end()) return false;
    expect(found->second == Range(op.first, op.count), state, "the sender sends other samples");
    flying_.erase(found);
    received[op.micro_batch] += op.count;
    ++state.next;
    return true;
  }

  bool send(State& state, const Op& op, std::map<int, int>& sent) {
    const bool fresh =
        flying_.insert({{state.rank, op.peer, op.kind == OpKind::send_gradient, op.micro_batch}, {op.first, op.count}})
            .second;
    expect(fresh, state, "the same message is sent twice");
    sent[op.micro_batch] += op.count;
    ++state.next;
    return true;
  }

  // Collectives: everyone concerned must stand at the same operation.
  bool meet() {
    bool progress = false;
    for (const std::vector<int>& group : schedule_.layout.stage_ranks)
      progress = meet_group(group, OpKind::reduce) || progress;
    std::vector<int> everyone;
    for (const State& state : states_) everyone.push_back(state.rank);
    return meet_group(everyone, OpKind::agree) || progress;
  }

  bool meet_group(const std::vector<int>& group, OpKind kind) {
    const Op* common = nullptr;
    for (const int rank : group) {
      const State& state = states_[rank];
      if (state.next >= ops(state).size() || ops(state)[state.next].kind != kind) return false;
      if (common && !(ops(state)[state.next] == *common)) {
        problem(state, "the group's other ranks reduce another unit");
        return false;
      }
      common = &ops(state)[state.next];
    }
    for (const int rank : group) {
      State& state = states_[rank];
      expect(static_cast<int>(state.backwarded.size()) == micro_batches(), state, "gradients are incomplete");
      if (kind == OpKind::reduce) {
        expect(owns(place(state), common->unit), state, "the unit is not of this rank");
        expect(state.reduced.insert(common->unit).second, state, "the unit is reduced twice");
      } else {
        expect(!state.agreed, state, "the ranks agree twice");
        expect(!replicated(state) || state.reduced.size() == place(state).units.size(), state,
               "gradients are not reduced");
        state.agreed = true;
      }
      if (problems_.empty()) ++state.next;
    }
    return true;
  }

  void finish() {
    for (const State& state : states_) {
      if (state.next < ops(state).size()) {
        problem(state, "waits for ever");
        continue;
      }
      const RankLayout& self = place(state);
      const std::string who = "rank " + std::to_string(state.rank) + ": ";
      if (static_cast<int>(state.backwarded.size()) != micro_batches())
        problems_.push_back(who + "micro-batches are missing");
      if (state.updated.size() != self.units.size()) problems_.push_back(who + "units are not updated");
      for (int m = 0; m < micro_batches(); ++m) {
        if (!self.last_stage && count(state.sent_activations, m) != self.samples)
          problems_.push_back(who + "the activation of micro-batch " + std::to_string(m) + " is not sent whole");
        if (!self.first_stage && count(state.sent_gradients, m) != self.samples)
          problems_.push_back(who + "the gradient of micro-batch " + std::to_string(m) + " is not sent whole");
      }
    }
    if (problems_.empty() && !flying_.empty())
      problems_.push_back("rank " + std::to_string(std::get<0>(flying_.begin()->first)) + ": a message to rank " +
                          std::to_string(std::get<1>(flying_.begin()->first)) + " is never received");
  }

  static int count(const std::map<int, int>& counts, int key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }

  const Schedule& schedule_;
  std::vector<State> states_;
  std::map<Address, Range> flying_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check(const Schedule& schedule) { return Checker(schedule).run(); }

}  // namespace espalier::torchrt
