#include <algorithm>

#include "planner/core/error.hpp"
#include "torchrt/schedule/op.hpp"
#include "torchrt/schedule/tied.hpp"

namespace espalier::torchrt {

namespace {

struct Work {
  bool forward;
  int micro_batch;
};

// The number of micro-batches before a stage's first backward (`warm_up`) fixes the whole order.
std::vector<Work> order_of_work(int micro_batches, int warm_up) {
  std::vector<Work> order;
  int next_forward = 0;
  for (; next_forward < std::min(warm_up, micro_batches); ++next_forward) order.push_back({true, next_forward});
  for (int next_backward = 0; next_backward < micro_batches; ++next_backward) {
    if (next_forward < micro_batches) order.push_back({true, next_forward++});
    order.push_back({false, next_backward});
  }
  return order;
}

// Makes one rank's list.
class Generator {
 public:
  Generator(const Layout& layout, const ScheduleOptions& options, int rank)
      : layout_(layout), options_(options), rank_(rank), self_(layout.ranks[static_cast<std::size_t>(rank)]) {}

  std::vector<Op> run() {
    const int stages = static_cast<int>(layout_.stages.size());
    const int warm_up = options_.name == "gpipe" ? layout_.micro_batches : stages - 1 - self_.stage;
    const std::vector<Op> activations_in = transfers(OpKind::receive_activation, self_.stage - 1);
    const std::vector<Op> activations_out = transfers(OpKind::send_activation, self_.stage + 1);
    const std::vector<Op> gradients_in = transfers(OpKind::receive_gradient, self_.stage + 1);
    const std::vector<Op> gradients_out = transfers(OpKind::send_gradient, self_.stage - 1);
    for (const Work& work : order_of_work(layout_.micro_batches, warm_up)) {
      const int m = work.micro_batch;
      if (work.forward) {
        add(activations_in, m);
        add(OpKind::forward, m);
        add(activations_out, m);
      } else {
        add(gradients_in, m);
        if (m + 1 < layout_.micro_batches || self_.replicas == 1) backward(m, gradients_out);
        else last_backward(m, gradients_out);
      }
    }
    finish();
    return std::move(ops_);
  }

 private:
  // Transfers between this rank and the ranks of a neighbour stage with common samples. A replica's
  // TP ranks hold the same activations. So each receiver has one sender, and a stage's TP ranks
  // share the receivers.
  std::vector<Op> transfers(OpKind kind, int neighbour) const {
    std::vector<Op> made;
    if (neighbour < 0 || neighbour >= static_cast<int>(layout_.stages.size())) return made;
    const StageLayout& other = layout_.stages[static_cast<std::size_t>(neighbour)];
    const bool receives = kind == OpKind::receive_activation || kind == OpKind::receive_gradient;
    for (int j = 0; j < other.replicas; ++j) {
      const RankLayout& peer = layout_.ranks[static_cast<std::size_t>(other.rank(j, 0))];
      const Range common = intersection({self_.first_sample, self_.samples}, {peer.first_sample, peer.samples});
      if (common.count == 0) continue;
      const int first = receives ? self_.tp_rank % other.tp : self_.tp_rank;
      const int last = receives ? first + 1 : other.tp;
      for (int t = first; t < last; t += self_.tp)
        made.push_back(
            {kind, -1, -1, other.rank(j, t), static_cast<int>(common.first), static_cast<int>(common.count)});
    }
    return made;
  }

  void add(const std::vector<Op>& transfers, int micro_batch) {
    for (Op op : transfers) {
      op.micro_batch = micro_batch;
      ops_.push_back(op);
    }
  }
  void add(OpKind kind, int micro_batch, int unit = -1) { ops_.push_back({kind, micro_batch, unit}); }

  // The gradient is sent before the work on the weights, because the stage before waits for it.
  void backward(int m, const std::vector<Op>& gradients_out) {
    if (options_.recompute) return backward_by_units(m, gradients_out, false);
    add(OpKind::backward, m);
    add(gradients_out, m);
    add(OpKind::weight_gradient, m);
  }

  void backward_by_units(int m, const std::vector<Op>& gradients_out, bool last) {
    for (auto unit = self_.units.rbegin(); unit != self_.units.rend(); ++unit) {
      add(OpKind::backward, m, *unit);
      if (*unit == self_.units.front()) add(gradients_out, m);
      add(OpKind::weight_gradient, m, *unit);
      if (last) add(OpKind::reduce, -1, *unit);
    }
  }

  // The reduction of a unit's gradient starts as soon as the gradient is complete, and overlaps the
  // work on other units. No stage waits for the first stage, so there a unit's weights come before
  // the other units' inputs.
  void last_backward(int m, const std::vector<Op>& gradients_out) {
    if (self_.first_stage || options_.recompute) return backward_by_units(m, gradients_out, true);
    add(OpKind::backward, m);
    add(gradients_out, m);
    for (auto unit = self_.units.rbegin(); unit != self_.units.rend(); ++unit) {
      add(OpKind::weight_gradient, m, *unit);
      add(OpKind::reduce, -1, *unit);
    }
  }

  void finish() {
    if (self_.replicas > 1)
      for (auto unit = self_.units.rbegin(); unit != self_.units.rend(); ++unit) add(OpKind::finish_reduce, -1, *unit);
    if (options_.tied_rows > 0)
      for (const Op& op : tied_operations(layout_, options_, rank_)) ops_.push_back(op);
    add(OpKind::agree, -1);
    const bool gathers = options_.zero1 && self_.replicas > 1;
    for (const int unit : self_.units) {
      add(OpKind::update, -1, unit);
      if (gathers) add(OpKind::gather, -1, unit);
    }
    if (gathers)
      for (const int unit : self_.units) add(OpKind::finish_gather, -1, unit);
  }

  const Layout& layout_;
  const ScheduleOptions& options_;
  int rank_;
  const RankLayout& self_;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> make_operations(const Layout& layout, const ScheduleOptions& options, int rank) {
  if (options.name != "1f1b" && options.name != "gpipe")
    throw Error("schedule: \"" + options.name + "\" is unknown; known are \"1f1b\" and \"gpipe\"");
  return Generator(layout, options, rank).run();
}

Schedule make_schedule(const Layout& layout, const ScheduleOptions& options) {
  Schedule schedule{layout, options, {}};
  for (std::size_t rank = 0; rank < layout.ranks.size(); ++rank)
    schedule.ranks.push_back(make_operations(layout, options, static_cast<int>(rank)));
  return schedule;
}

}  // namespace espalier::torchrt
