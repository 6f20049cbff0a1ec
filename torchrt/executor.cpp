#include "torchrt/executor.hpp"

#include <cmath>

#include "planner/core/error.hpp"
#include "torchrt/learning_rate.hpp"

namespace espalier::torchrt {

namespace {

int tag(const Op& op) {
  const bool gradient = op.kind == OpKind::send_gradient || op.kind == OpKind::receive_gradient;
  return 2 * op.micro_batch + (gradient ? 1 : 0);
}

}  // namespace

Executor::Executor(const Config& config, const Schedule& schedule, World& world, Compute& compute, const Data& data)
    : config_(config),
      schedule_(schedule),
      layout_(schedule.layout.ranks[static_cast<std::size_t>(world.rank())]),
      world_(world),
      compute_(compute),
      data_(data),
      replicas_(world.split(layout_.stage)),
      input_(layout_.first_stage ? 0 : floats_per_sample() * static_cast<std::size_t>(layout_.samples)),
      gradient_(layout_.last_stage ? 0 : floats_per_sample() * static_cast<std::size_t>(layout_.samples)) {}

std::size_t Executor::floats_per_sample() const {
  return static_cast<std::size_t>(config_.model.sequence) * static_cast<std::size_t>(config_.model.hidden);
}

StepOutcome Executor::run(std::int64_t step, const SwitchQuestion& switch_requested) {
  return execute(schedule_, step, switch_requested, false);
}

void Executor::rehearse() {
  Layout one = schedule_.layout;
  one.micro_batches = 1;
  execute(
      make_schedule(one, config_.training.schedule), 1, [] { return false; }, true);
}

StepOutcome Executor::execute(const Schedule& schedule, std::int64_t step, const SwitchQuestion& switch_requested,
                              bool rehearsal) {
  const std::uint64_t step_start =
      static_cast<std::uint64_t>(step - 1) * static_cast<std::uint64_t>(config_.training.global_batch);
  StepOutcome outcome;
  double scale = 1, rate = 0;
  compute_.begin_step();
  for (const Op& op : schedule.ranks[static_cast<std::size_t>(world_.rank())]) {
    switch (op.kind) {
      case OpKind::receive_activation:
      case OpKind::receive_gradient:
      case OpKind::send_activation:
      case OpKind::send_gradient:
        transfer(op);
        break;
      case OpKind::forward: {
        const int first = op.micro_batch * schedule_.layout.micro_batch + layout_.first_sample;
        Batch batch;
        if (layout_.first_stage || layout_.last_stage)
          batch = data_.samples(step_start + static_cast<std::uint64_t>(first), layout_.samples);
        compute_.forward(op.micro_batch, batch, input_);
        break;
      }
      case OpKind::backward:
        compute_.backward(op.micro_batch, gradient_);
        break;
      case OpKind::reduce:
        replicas_.sum(compute_.gradient(op.unit));
        compute_.reduced(op.unit);
        break;
      case OpKind::agree: {
        outcome = agree(step, switch_requested());
        if (rehearsal) break;
        if (!std::isfinite(outcome.loss) || !std::isfinite(outcome.gradient_norm))
          throw Error("training: the loss of step " + std::to_string(step) +
                      " is not a finite number; lower training.learning_rate");
        const double clip = config_.training.clip_norm;
        if (clip > 0 && outcome.gradient_norm > clip) scale = clip / (outcome.gradient_norm + 1e-6);
        rate = learning_rate(config_.training, step);
        break;
      }
      case OpKind::update:
        if (!rehearsal) compute_.update(op.unit, step, rate, scale);
        break;
    }
  }
  world_.drain();
  return outcome;
}

void Executor::transfer(const Op& op) {
  const std::size_t width = floats_per_sample();
  const std::size_t first = static_cast<std::size_t>(op.first - layout_.first_sample) * width;
  const std::size_t count = static_cast<std::size_t>(op.count) * width;
  switch (op.kind) {
    case OpKind::receive_activation:
      world_.receive(std::span(input_).subspan(first, count), op.peer, tag(op));
      break;
    case OpKind::receive_gradient:
      world_.receive(std::span(gradient_).subspan(first, count), op.peer, tag(op));
      break;
    case OpKind::send_activation:
      world_.post(compute_.output(op.micro_batch).subspan(first, count), op.peer, tag(op));
      break;
    default:
      world_.post(compute_.input_gradient(op.micro_batch).subspan(first, count), op.peer, tag(op));
      break;
  }
}

// Everyone sends its units' norms, its share of the loss and its wish. The sums are made by everyone alike in the order
// of units and ranks, so no layout changes a bit of the clipping (with one replica per stage, nor of the loss).
StepOutcome Executor::agree(std::int64_t step, bool switch_requested) {
  const Layout& layout = schedule_.layout;
  const std::size_t units = static_cast<std::size_t>(layout.units), width = units + 3;
  std::vector<double> mine(width, 0.0);
  for (const int unit : layout_.units) mine[static_cast<std::size_t>(unit)] = compute_.squared_norm(unit);
  mine[units] = layout_.last_stage ? compute_.loss_sum() : 0;
  mine[units + 1] = switch_requested ? 1 : 0;
  mine[units + 2] = static_cast<double>(step);
  const std::vector<double> all = world_.gather_all(mine);
  StepOutcome outcome;
  double squared = 0;
  for (const std::vector<int>& stage : layout.stage_ranks) {
    const std::size_t owner = static_cast<std::size_t>(stage.front());
    for (const int unit : layout.ranks[owner].units) squared += all[owner * width + static_cast<std::size_t>(unit)];
  }
  for (std::size_t rank = 0; rank < layout.ranks.size(); ++rank) {
    outcome.loss += all[rank * width + units];
    outcome.switch_agreed = outcome.switch_agreed || all[rank * width + units + 1] != 0;
    ESPALIER_INVARIANT(all[rank * width + units + 2] == static_cast<double>(step));
  }
  outcome.loss /= static_cast<double>(config_.training.global_batch) * config_.model.sequence;
  outcome.gradient_norm = std::sqrt(squared);
  return outcome;
}

}  // namespace espalier::torchrt
