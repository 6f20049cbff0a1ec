#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/schedule/op.hpp"
#include "torchrt/schedule/tied.hpp"

namespace espalier::torchrt {

namespace {

using pipeline::Action;
using pipeline::Compute;

// Makes one rank's list.
class Lowering {
 public:
  Lowering(const Layout& layout, const ScheduleOptions& options, const pipeline::Schedule& work, int rank)
      : layout_(layout),
        options_(options),
        work_(work),
        rank_(rank),
        self_(layout.ranks[static_cast<std::size_t>(rank)]) {}

  std::vector<Op> run() {
    const std::vector<Action>& actions = work_.actions[static_cast<std::size_t>(self_.stage)];
    find_routes();
    find_needs();
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (completes_weights(actions[i])) last_[actions[i].chunk] = i;
    std::vector<Op> list, coming = receives(actions, 0);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      append(list, std::exchange(coming, {}));
      work(actions[i], self_.replicas > 1 && is_last(actions[i], i));
      const std::vector<Op> own = std::exchange(ops_, {});
      coming = receives(actions, i + 1);
      if (may_come_before(coming, own, i)) append(list, std::exchange(coming, {}));
      append(list, own);
    }
    finish();
    append(list, ops_);
    return list;
  }

 private:
  // A message to a rank of this stage: which chunk's input, or output's gradient, it is.
  struct Expected {
    OpKind kind;
    int chunk, micro_batch;
    bool operator==(const Expected&) const = default;
  };
  // All that another stage sends this one in one lane, in the order of sending.
  struct Route {
    std::vector<Expected> messages;
    std::size_t received = 0;
  };

  static void append(std::vector<Op>& list, const std::vector<Op>& more) {
    list.insert(list.end(), more.begin(), more.end());
  }
  // What is received for action `i`; nothing for one that does not exist.
  std::vector<Op> receives(const std::vector<Action>& actions, std::size_t i) {
    if (i < actions.size() && actions[i].kind != Compute::backward_weight)
      receive(actions[i].kind == Compute::forward ? OpKind::receive_activation : OpKind::receive_gradient, actions[i]);
    return std::exchange(ops_, {});
  }
  // Whether the messages can travel beside `done`, what is done for action `place`. A lane's order stays as it is: on a
  // GPU a receive would keep a send behind it in its lane from leaving. A gradient's place belongs to an output. And no
  // receive waits on the GPU for what the GPU has yet to do: whatever waits for the whole GPU meanwhile, such as the
  // first use of a kernel, would wait for ever.
  bool may_come_before(const std::vector<Op>& coming, const std::vector<Op>& done, std::size_t place) const {
    return std::none_of(coming.begin(), coming.end(), [&](const Op& receive) {
      if (needs_of(receive) >= static_cast<std::int64_t>(place)) return true;
      return std::any_of(done.begin(), done.end(), [&](const Op& op) {
        if (is_send(op.kind)) return lane_of(op) == lane_of(receive);
        return receive.kind == OpKind::receive_gradient && op.kind == OpKind::forward && op.chunk == receive.chunk &&
               op.micro_batch == receive.micro_batch;
      });
    });
  }

  // By what is computed, {is it a forward, chunk, micro-batch}: the last of this stage's actions that it needs; -1:
  // none.
  using Computed = std::tuple<bool, int, int>;
  std::int64_t needs_of(const Op& receive) const {
    const bool forward = receive.kind == OpKind::receive_activation;
    const auto found = needs_.find({forward, receive.chunk + (forward ? -1 : 1), receive.micro_batch});
    return found == needs_.end() ? std::numeric_limits<std::int64_t>::max() : found->second;
  }
  // Goes through all stages' actions in an order in which they can run.
  void find_needs() {
    const std::size_t stages = work_.actions.size();
    std::vector<std::size_t> next(stages, 0);
    std::vector<std::int64_t> last(stages, -1);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t s = 0; s < stages; ++s)
        for (; next[s] < work_.actions[s].size(); ++next[s], progress = true) {
          const Action& action = work_.actions[s][next[s]];
          const bool own = static_cast<int>(s) == self_.stage, forward = action.kind == Compute::forward;
          const int from = action.chunk + (forward ? -1 : 1);
          if (action.kind != Compute::backward_weight && exists(from)) {
            const auto input = needs_.find({forward, from, action.micro_batch});
            if (input == needs_.end()) break;  // not computed yet
            last[s] = std::max(last[s], input->second);
          }
          if (own) last[s] = static_cast<std::int64_t>(next[s]);
          if (action.kind != Compute::backward_weight) needs_[{forward, action.chunk, action.micro_batch}] = last[s];
        }
    }
  }

  int stage_of(int chunk) const { return layout_.chunks[static_cast<std::size_t>(chunk)].stage; }
  bool exists(int chunk) const { return chunk >= 0 && chunk < static_cast<int>(layout_.chunks.size()); }

  // I without a W of its own: see lower().
  bool computes_weights_too(const Action& action) const {
    return action.kind == Compute::backward || (options_.recompute && action.kind == Compute::backward_input);
  }
  bool completes_weights(const Action& action) const {
    return computes_weights_too(action) || (!options_.recompute && action.kind == Compute::backward_weight);
  }
  bool is_last(const Action& action, std::size_t at) const {
    return completes_weights(action) && last_.at(action.chunk) == at;
  }

  Route& route(int stage, OpKind kind, int chunk) {
    const Lane lane = lane_of(message(kind, chunk, stage));
    return routes_[{stage, lane}];
  }
  // The transfer between `chunk` of this stage and its neighbour on `stage`, without a rank.
  Op message(OpKind kind, int chunk, int stage) const {
    const bool up = kind == OpKind::send_activation || kind == OpKind::receive_gradient;  // the neighbour comes after
    Op op{kind};
    op.chunk = chunk;
    op.returns = up == (stage < self_.stage);
    return op;
  }

  void find_routes() {
    for (int stage = 0; stage < static_cast<int>(layout_.stages.size()); ++stage)
      for (const Action& action : work_.actions[static_cast<std::size_t>(stage)]) {
        if (stage == self_.stage) break;
        const bool forward = action.kind == Compute::forward;
        if (action.kind == Compute::backward_weight) continue;
        const int to = action.chunk + (forward ? 1 : -1);
        if (!exists(to) || stage_of(to) != self_.stage) continue;
        const OpKind kind = forward ? OpKind::receive_activation : OpKind::receive_gradient;
        route(stage, kind, to).messages.push_back({kind, to, action.micro_batch});
      }
  }

  // Receives the message, and before it what its sender sends before it.
  void receive(OpKind kind, const Action& action) {
    const int neighbour = action.chunk + (kind == OpKind::receive_activation ? -1 : 1);
    if (!exists(neighbour) || stage_of(neighbour) == self_.stage) return;
    Route& from = route(stage_of(neighbour), kind, action.chunk);
    const Expected wanted{kind, action.chunk, action.micro_batch};
    const auto found = std::find(from.messages.begin(), from.messages.end(), wanted);
    if (found == from.messages.end())
      throw Error("schedule: " + describe(message(kind, action.chunk, 0), true) +
                  ": no stage computes what this message brings");
    const auto end = static_cast<std::size_t>(found - from.messages.begin()) + 1;
    for (; from.received < end; ++from.received) {
      const Expected& next = from.messages[from.received];
      transfer(next.kind, next.chunk, next.micro_batch);
    }
  }

  void send(OpKind kind, const Action& action) { transfer(kind, action.chunk, action.micro_batch); }

  // Transfers between this rank and the ranks with common samples of the stage that holds the chunk's neighbour. A
  // replica's TP ranks hold the same activations. So each receiver has one sender, and a stage's TP ranks share the
  // receivers.
  void transfer(OpKind kind, int chunk, int micro_batch) {
    const bool up = kind == OpKind::send_activation || kind == OpKind::receive_gradient;
    const int neighbour = chunk + (up ? 1 : -1);
    if (!exists(neighbour) || stage_of(neighbour) == self_.stage) return;
    const StageLayout& other = layout_.stages[static_cast<std::size_t>(stage_of(neighbour))];
    for (int j = 0; j < other.replicas; ++j) {
      const RankLayout& peer = layout_.ranks[static_cast<std::size_t>(other.rank(j, 0))];
      const Range common = intersection({self_.first_sample, self_.samples}, {peer.first_sample, peer.samples});
      if (common.count == 0) continue;
      const bool receives = is_receive(kind);
      const int first = receives ? self_.tp_rank % other.tp : self_.tp_rank;
      const int last = receives ? first + 1 : other.tp;
      for (int t = first; t < last; t += self_.tp) {
        Op op = message(kind, chunk, stage_of(neighbour));
        op.micro_batch = micro_batch;
        op.peer = other.rank(j, t);
        op.first = static_cast<int>(common.first);
        op.count = static_cast<int>(common.count);
        ops_.push_back(op);
      }
    }
  }

  void compute(OpKind kind, const Action& action, int unit = -1) {
    Op op{kind, action.micro_batch, unit};
    op.chunk = action.chunk;
    ops_.push_back(op);
  }
  void add(OpKind kind, int unit) { ops_.push_back({kind, -1, unit}); }

  // `last`: the last part of the gradients of the chunk's parameters, which are then to be reduced.
  void work(const Action& action, bool last) {
    if (action.kind == Compute::forward) {
      compute(OpKind::forward, action);
      send(OpKind::send_activation, action);
    } else if (action.kind == Compute::backward_weight) {
      if (!options_.recompute) weight_gradients(action, last);
    } else {
      backward(action, last);
    }
  }

  // The gradient is sent before the work on the weights, because the chunk before waits for it. No chunk waits for the
  // first one: before its reductions there, a unit's weights come before the other units' inputs.
  void backward(const Action& action, bool last) {
    const bool both = computes_weights_too(action);
    if (both && (options_.recompute || (last && action.chunk == 0))) {
      const ChunkLayout& chunk = layout_.chunks[static_cast<std::size_t>(action.chunk)];
      for (int unit = chunk.last_unit(); unit >= chunk.first_unit; --unit) {
        compute(OpKind::backward, action, unit);
        if (unit == chunk.first_unit) send(OpKind::send_gradient, action);
        weight_gradient(action, unit, last);
      }
      return;
    }
    compute(OpKind::backward, action);
    send(OpKind::send_gradient, action);
    if (both) weight_gradients(action, last);
  }

  // The reduction of a unit's gradient starts as soon as the gradient is complete, and overlaps the work on other
  // units.
  void weight_gradients(const Action& action, bool last) {
    if (!last) return compute(OpKind::weight_gradient, action);
    const ChunkLayout& chunk = layout_.chunks[static_cast<std::size_t>(action.chunk)];
    for (int unit = chunk.last_unit(); unit >= chunk.first_unit; --unit) weight_gradient(action, unit, true);
  }
  void weight_gradient(const Action& action, int unit, bool last) {
    compute(OpKind::weight_gradient, action, unit);
    if (last) add(OpKind::reduce, unit);
  }

  void finish() {
    if (self_.replicas > 1)
      for (auto unit = self_.units.rbegin(); unit != self_.units.rend(); ++unit) add(OpKind::finish_reduce, *unit);
    if (options_.tied_rows > 0)
      for (const Op& op : tied_operations(layout_, options_, rank_)) ops_.push_back(op);
    add(OpKind::agree, -1);
    const bool gathers = options_.zero1 && self_.replicas > 1;
    for (const int unit : self_.units) {
      add(OpKind::update, unit);
      if (gathers) add(OpKind::gather, unit);
    }
    if (gathers)
      for (const int unit : self_.units) add(OpKind::finish_gather, unit);
  }

  const Layout& layout_;
  const ScheduleOptions& options_;
  const pipeline::Schedule& work_;
  int rank_;
  const RankLayout& self_;
  std::map<int, std::size_t> last_;  // by chunk: the place of its last work on weights
  std::map<std::pair<int, Lane>, Route> routes_;
  std::map<Computed, std::int64_t> needs_;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> lower(const Layout& layout, const ScheduleOptions& options, const pipeline::Schedule& work, int rank) {
  bool same = work.micro_batches == layout.micro_batches && work.actions.size() == layout.stages.size() &&
              work.rank_of_chunk.size() == layout.chunks.size();
  for (std::size_t c = 0; same && c < layout.chunks.size(); ++c) same = work.rank_of_chunk[c] == layout.chunks[c].stage;
  for (std::size_t s = 0; same && s < work.actions.size(); ++s)
    for (const Action& action : work.actions[s])
      same = same && action.chunk >= 0 && action.chunk < static_cast<int>(layout.chunks.size()) &&
             layout.chunks[static_cast<std::size_t>(action.chunk)].stage == static_cast<int>(s);
  if (!same) throw Error("schedule: it is for other stages, chunks or micro-batches than the plan");
  return Lowering(layout, options, work, rank).run();
}

std::vector<Op> make_operations(const Layout& layout, const ScheduleOptions& options, int rank) {
  return lower(layout, options, order_of_work(layout, options), rank);
}

Schedule make_schedule(const Layout& layout, const ScheduleOptions& options) {
  Schedule schedule{layout, options, {}};
  const pipeline::Schedule work = order_of_work(layout, options);
  for (std::size_t rank = 0; rank < layout.ranks.size(); ++rank)
    schedule.ranks.push_back(lower(layout, options, work, static_cast<int>(rank)));
  return schedule;
}

}  // namespace espalier::torchrt
