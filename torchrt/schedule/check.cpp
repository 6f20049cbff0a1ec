#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "torchrt/schedule/lane_queues.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

namespace {

// Runs of rows or samples. They must not overlap.
class Cover {
 public:
  // False when some of the range is there already.
  bool add(Range range) {
    const auto next = runs_.lower_bound(range.first);
    if (next != runs_.end() && next->first < range.end()) return false;
    if (next != runs_.begin() && std::prev(next)->second > range.first) return false;
    runs_[range.first] = range.end();
    total_ += range.count;
    return true;
  }
  bool overlaps(Range range) const { return !Cover(*this).add(range); }
  bool contains(Range range) const {  // as one run that was added
    const auto found = runs_.find(range.first);
    return found != runs_.end() && found->second == range.end();
  }
  std::int64_t total() const { return total_; }

 private:
  std::map<std::int64_t, std::int64_t> runs_;
  std::int64_t total_ = 0;
};

class Checker {
 public:
  Checker(const Schedule& schedule, Messages messages)
      : schedule_(schedule), states_(schedule.ranks.size()), lanes_(schedule.ranks, messages) {
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
  using Part = std::pair<int, int>;  // chunk and micro-batch

  struct State {
    int rank = 0;
    std::size_t next = 0;
    std::map<Part, Cover> activations, gradients;         // samples whose receive has begun
    std::map<std::pair<OpKind, Part>, int> awaited;       // messages that have not arrived, by what needs them
    std::map<std::tuple<OpKind, int, Part>, Cover> sent;  // by kind, peer, and part; tied: {unit, -1}
    std::set<Part> forwarded;
    std::pair<OpKind, Part> computed{OpKind::forward, {-1, -1}};    // the last
    std::map<Part, std::vector<int>> backwarded, weighted;          // units done
    std::size_t collectives = 0;                                    // started in the replica group
    std::set<int> reducing, reduced, updated, gathering, gathered;  // units
    std::map<int, Cover> tied_received, tied_added;                 // rows, by unit
    bool agreed = false;
  };
  const std::vector<Op>& ops(const State& state) const { return schedule_.ranks[static_cast<std::size_t>(state.rank)]; }
  const Op& now(const State& state) const { return ops(state)[state.next]; }
  const RankLayout& place(const State& state) const {
    return schedule_.layout.ranks[static_cast<std::size_t>(state.rank)];
  }
  static Part part(const Op& op) { return {op.chunk, op.micro_batch}; }
  // The operation that waits for what `op` receives, and that operation itself.
  static std::pair<OpKind, Part> awaiting(const Op& op) {
    if (op.kind == OpKind::receive_activation) return {OpKind::forward, part(op)};
    if (op.kind == OpKind::receive_gradient) return {OpKind::backward, part(op)};
    if (op.kind == OpKind::receive_tied || op.kind == OpKind::add_tied) return {OpKind::add_tied, {op.unit, op.first}};
    return {op.kind, part(op)};
  }
  bool waits(const State& state) const {
    const auto found = state.awaited.find(awaiting(now(state)));
    return found != state.awaited.end() && found->second > 0;
  }
  const ChunkLayout& chunk(const Op& op) const { return schedule_.layout.chunks[static_cast<std::size_t>(op.chunk)]; }
  bool has_chunk(int chunk) const { return chunk >= 0 && chunk < static_cast<int>(schedule_.layout.chunks.size()); }
  int stage_of(int chunk) const { return schedule_.layout.chunks[static_cast<std::size_t>(chunk)].stage; }
  // True when what comes from, or goes to, this neighbour chunk is a message: it exists, on another stage.
  bool is_sent(const State& state, int neighbour) const {
    return has_chunk(neighbour) && stage_of(neighbour) != place(state).stage;
  }
  static bool of_chunk(OpKind kind) {
    return kind == OpKind::forward || kind == OpKind::backward || kind == OpKind::weight_gradient ||
           kind == OpKind::send_activation || kind == OpKind::receive_activation || kind == OpKind::send_gradient ||
           kind == OpKind::receive_gradient;
  }
  int micro_batches() const { return schedule_.layout.micro_batches; }
  bool gathers(const State& state) const { return schedule_.options.zero1 && place(state).replicas > 1; }
  bool tied(const State& state, int unit) const {
    return schedule_.options.tied_rows > 0 && owns(place(state), unit) &&
           (unit == 0 || unit == schedule_.layout.units - 1);
  }

  void problem(const State& state, const std::string& text) { problem(state, state.next, text); }
  void problem(const State& state, std::size_t place, const std::string& text) {
    problems_.push_back("rank " + std::to_string(state.rank) + ", operation " + std::to_string(place) + " (" +
                        describe(ops(state)[place], schedule_.layout.chunked()) + "): " + text);
  }
  void expect(bool condition, const State& state, const char* text) {
    if (!condition) problem(state, text);
  }

  // Runs one operation of one rank; false when it must wait. Operations that several ranks do
  // together wait for meet().
  bool step(State& state) {
    const Op& op = now(state);
    if (of_chunk(op.kind) && (!has_chunk(op.chunk) || stage_of(op.chunk) != place(state).stage)) {
      problem(state, "the chunk is not of this rank");
      return false;
    }
    if (is_receive(op.kind)) return receive(state, op);
    if (waits(state)) return false;
    const bool together = place(state).tp > 1 && (op.kind == OpKind::forward || op.kind == OpKind::backward);
    if (together || op.kind == OpKind::agree) return false;
    if (op.kind == OpKind::finish_reduce || op.kind == OpKind::finish_gather) {
      expect((op.kind == OpKind::finish_reduce ? state.reducing : state.gathering).count(op.unit) == 1, state,
             "was never started");
      if (!problems_.empty() || !all_started(state, op)) return false;
    }
    if (is_send(op.kind)) send(state, op);
    else work(state, op);
    ++state.next;
    return true;
  }

  static bool owns(const RankLayout& rank, int unit) {
    return std::find(rank.units.begin(), rank.units.end(), unit) != rank.units.end();
  }

  void work(State& state, const Op& op) {
    const RankLayout& self = place(state);
    const int m = op.micro_batch;
    if (op.unit >= 0) expect(owns(self, op.unit), state, "the unit is not of this rank");
    if (of_chunk(op.kind)) state.computed = {op.kind, part(op)};
    switch (op.kind) {
      case OpKind::forward:
        expect(m >= 0 && m < micro_batches(), state, "no such micro-batch");
        expect(state.forwarded.insert(part(op)).second, state, "the micro-batch is done twice");
        if (is_sent(state, op.chunk - 1))
          expect(state.activations[part(op)].total() == self.samples, state, "its input is incomplete");
        else
          expect(op.chunk == 0 || state.forwarded.count({op.chunk - 1, m}) == 1, state,
                 "the chunk before has not come yet");
        break;
      case OpKind::backward:
        backward(state, op);
        break;
      case OpKind::weight_gradient:
        weight_gradient(state, op);
        break;
      case OpKind::reduce:
        expect(self.replicas > 1, state, "the stage has one replica");
        expect(gradient_whole(state, op.unit), state, "the gradient is incomplete");
        expect(state.reducing.insert(op.unit).second, state, "the unit is reduced twice");
        start(state, op);
        break;
      case OpKind::finish_reduce:
        expect(state.reduced.insert(op.unit).second, state, "the unit is reduced twice");
        break;
      case OpKind::add_tied:
        expect(state.tied_received[op.unit].contains({op.first, op.count}), state, "these rows were not received");
        expect(state.tied_added[op.unit].add({op.first, op.count}), state, "rows are added twice");
        break;
      case OpKind::update:
        expect(state.agreed, state, "the ranks have not agreed on the norm");
        expect(state.updated.insert(op.unit).second, state, "the unit is updated twice");
        break;
      case OpKind::gather:
        expect(gathers(state), state, "nothing is divided among replicas");
        expect(state.updated.count(op.unit) == 1, state, "the unit is not updated");
        expect(state.gathering.insert(op.unit).second, state, "the unit is gathered twice");
        start(state, op);
        break;
      case OpKind::finish_gather:
        expect(state.gathered.insert(op.unit).second, state, "the unit is gathered twice");
        break;
      default:
        problem(state, "is of no known kind");
    }
  }

  // Adds the units of `op` to `done`, the last unit first.
  void add_units(State& state, const Op& op, std::vector<int>& done) {
    expect(op.unit < 0 || chunk(op).holds(op.unit), state, "the unit is not of this chunk");
    for (int unit = chunk(op).last_unit(); unit >= chunk(op).first_unit; --unit) {
      if (op.unit >= 0 && unit != op.unit) continue;
      expect(std::find(done.begin(), done.end(), unit) == done.end(), state, "the unit is done twice");
      done.push_back(unit);
    }
  }
  bool has_input_gradient(State& state, const Part& at) {
    return static_cast<int>(state.backwarded[at].size()) ==
           schedule_.layout.chunks[static_cast<std::size_t>(at.first)].units;
  }

  void backward(State& state, const Op& op) {
    std::vector<int>& done = state.backwarded[part(op)];
    expect(state.forwarded.count(part(op)) == 1, state, "no forward came before");
    if (is_sent(state, op.chunk + 1))
      expect(state.gradients[part(op)].total() == place(state).samples, state, "its gradient is incomplete");
    else
      expect(!has_chunk(op.chunk + 1) || has_input_gradient(state, {op.chunk + 1, op.micro_batch}), state,
             "the chunk behind has not come yet");
    add_units(state, op, done);
    expect(std::is_sorted(done.rbegin(), done.rend()), state, "the units must come last to first");
    if (!done.empty())
      expect(done.size() == static_cast<std::size_t>(chunk(op).last_unit() - done.back() + 1), state,
             "a unit is left out");
  }

  void weight_gradient(State& state, const Op& op) {
    const std::vector<int>& inputs = state.backwarded[part(op)];
    std::vector<int>& done = state.weighted[part(op)];
    add_units(state, op, done);
    for (const int unit : done)
      expect(std::find(inputs.begin(), inputs.end(), unit) != inputs.end(), state, "no backward came before");
  }

  bool gradient_whole(State& state, int unit) {
    const int chunk = schedule_.layout.chunk_of_unit(unit);
    for (int m = 0; m < micro_batches(); ++m) {
      const std::vector<int>& done = state.weighted[{chunk, m}];
      if (std::find(done.begin(), done.end(), unit) == done.end()) return false;
    }
    return place(state).replicas == 1 || state.reducing.count(unit) == 0;
  }

  // Does not wait: what needs the message does.
  bool receive(State& state, const Op& op) {
    if (!has_peer(op)) {
      problem(state, "there is no such rank");
      return false;
    }
    const bool tied_rows = op.kind == OpKind::receive_tied;
    Cover& cover = tied_rows                             ? state.tied_received[op.unit]
                   : op.kind == OpKind::receive_gradient ? state.gradients[part(op)]
                                                         : state.activations[part(op)];
    expect(cover.add({op.first, op.count}), state, "is received twice");
    if (tied_rows) expect(tied(state, op.unit), state, "this rank has no such table");
    if (op.kind == OpKind::receive_gradient)
      expect(state.forwarded.count(part(op)) == 1, state, "no forward came before");
    ++state.awaited[awaiting(op)];
    begin_transfer(state);
    ++state.next;
    return true;
  }

  bool has_peer(const Op& op) const { return op.peer >= 0 && op.peer < static_cast<int>(states_.size()); }

  void begin_transfer(State& state) {
    for (const LaneQueues::Arrival& arrival : lanes_.begin(state.rank, state.next)) {
      State& there = states_[static_cast<std::size_t>(arrival.rank)];
      if (!arrival.matches) problem(there, arrival.place, "the sender sends something else");
      --there.awaited[awaiting(ops(there)[arrival.place])];
    }
  }

  void send(State& state, const Op& op) {
    const RankLayout& self = place(state);
    if (!has_peer(op)) return problem(state, "there is no such rank");
    const RankLayout& peer = schedule_.layout.ranks[static_cast<std::size_t>(op.peer)];
    switch (op.kind) {
      case OpKind::send_activation:
        expect(state.forwarded.count(part(op)) == 1, state, "the activation does not exist yet");
        expect(is_sent(state, op.chunk + 1) && peer.stage == stage_of(op.chunk + 1), state,
               "the peer does not hold the next chunk");
        break;
      case OpKind::send_gradient:
        expect(has_input_gradient(state, part(op)), state, "the gradient does not exist yet");
        expect(state.computed == std::pair(OpKind::backward, part(op)), state,
               "the gradient is forgotten: something else was computed since");
        expect(is_sent(state, op.chunk - 1) && peer.stage == stage_of(op.chunk - 1), state,
               "the peer does not hold the chunk before");
        break;
      default:
        expect(tied(state, op.unit), state, "this rank has no such table");
        expect(self.replicas > 1 ? state.reduced.count(op.unit) == 1 : gradient_whole(state, op.unit), state,
               "the gradient is incomplete");
        expect(!state.tied_added[op.unit].overlaps({op.first, op.count}), state, "the other copy's rows are in it");
        break;
    }
    const Part what = op.kind == OpKind::send_tied ? Part{op.unit, -1} : part(op);
    expect(state.sent[{op.kind, op.peer, what}].add({op.first, op.count}), state, "is sent twice");
    begin_transfer(state);
  }

  // Checks that all members of a group start the same collectives in the same order.
  void start(State& state, const Op& op) {
    const RankLayout& self = place(state);
    std::vector<std::pair<OpKind, int>>& order = collectives_[{self.stage, self.tp_rank}];
    if (state.collectives == order.size()) order.push_back({op.kind, op.unit});
    expect(order[state.collectives] == std::pair(op.kind, op.unit), state, "the group's other ranks start another one");
    ++state.collectives;
  }

  bool all_started(const State& state, const Op& op) const {
    const RankLayout& self = place(state);
    const StageLayout& stage = schedule_.layout.stages[static_cast<std::size_t>(self.stage)];
    for (int j = 0; j < stage.replicas; ++j) {
      const State& member = states_[static_cast<std::size_t>(stage.rank(j, self.tp_rank))];
      if ((op.kind == OpKind::finish_reduce ? member.reducing : member.gathering).count(op.unit) == 0) return false;
    }
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
    for (int rank = first; rank < first + size; ++rank) {
      const State& state = states_[static_cast<std::size_t>(rank)];
      if (state.next >= ops(state).size()) return false;
      const Op& op = now(state);
      if ((op.kind != OpKind::forward && op.kind != OpKind::backward) || waits(state)) return false;
      if (common && !(op == *common)) {
        problem(state, "the replica's other ranks do something else");
        return false;
      }
      common = &op;
    }
    for (int rank = first; rank < first + size && problems_.empty(); ++rank) {
      State& state = states_[static_cast<std::size_t>(rank)];
      work(state, now(state));
      ++state.next;
    }
    return true;
  }

  bool meet_all() {
    for (const State& state : states_)
      if (state.next >= ops(state).size() || now(state).kind != OpKind::agree) return false;
    for (State& state : states_) {
      for (const int unit : place(state).units) {
        expect(place(state).replicas > 1 ? state.reduced.count(unit) == 1 : gradient_whole(state, unit), state,
               "gradients are incomplete");
        if (tied(state, unit)) expect(tied_complete(state, unit), state, "the tied table's gradient is incomplete");
      }
      expect(!state.agreed, state, "the ranks agree twice");
      state.agreed = true;
      ++state.next;
    }
    return true;
  }

  bool tied_complete(State& state, int unit) {
    const Range own = table_rows(schedule_.options.tied_rows, place(state).tp, place(state).tp_rank);
    return state.tied_added[unit].total() == own.count && state.tied_received[unit].total() == own.count;
  }

  void finish() {
    for (State& state : states_) {
      if (state.next < ops(state).size()) {
        problem(state, "waits for ever");
        continue;
      }
      const RankLayout& self = place(state);
      const std::string who = "rank " + std::to_string(state.rank) + ": ";
      if (state.forwarded.size() != static_cast<std::size_t>(micro_batches()) * self.chunks.size())
        problems_.push_back(who + "micro-batches are missing");
      if (!state.agreed) problems_.push_back(who + "does not agree with the others");
      if (state.updated.size() != self.units.size()) problems_.push_back(who + "units are not updated");
      if (gathers(state) && state.gathered.size() != self.units.size())
        problems_.push_back(who + "parameters are not gathered");
      for (const int chunk : self.chunks)
        for (int m = 0; m < micro_batches(); ++m) finish(state, who, {chunk, m});
    }
    if (!problems_.empty()) return;
    const std::vector<std::string> left = lanes_.left();
    problems_.insert(problems_.end(), left.begin(), left.end());
  }

  void finish(State& state, const std::string& who, const Part& at) {
    const auto units = static_cast<std::size_t>(schedule_.layout.chunks[static_cast<std::size_t>(at.first)].units);
    const std::string what = "micro-batch " + std::to_string(at.second) +
                             (schedule_.layout.chunked() ? " in chunk " + std::to_string(at.first) : "");
    if (state.backwarded[at].size() != units) problems_.push_back(who + "the backward of " + what + " is incomplete");
    if (state.weighted[at].size() != units) problems_.push_back(who + "weight gradients of " + what + " are missing");
    if (is_sent(state, at.first + 1) && state.gradients[at].total() != place(state).samples)
      problems_.push_back(who + "the gradient of " + what + " is not received whole");
  }

  const Schedule& schedule_;
  std::vector<State> states_;
  LaneQueues lanes_;
  std::map<std::pair<int, int>, std::vector<std::pair<OpKind, int>>> collectives_;  // by stage and TP rank
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check(const Schedule& schedule, Messages messages) {
  return Checker(schedule, messages).run();
}

}  // namespace espalier::torchrt
