#include "torchrt/executor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// Tags of activations and gradients number the micro-batches at every boundary between chunks. They are below 2^20 - 1;
// where there are more, they start again, long after their first use.
constexpr int kMessageTags = (1 << 20) - 1;

}  // namespace

Executor::Executor(Engine engine)
    : engine_(std::move(engine)),
      self_(engine_.layout.ranks[static_cast<std::size_t>(engine_.world.rank())]),
      options_(engine_.options),
      ops_(make_operations(engine_.layout, options_, engine_.world.rank())),
      agreement_(engine_),
      tied_(engine_, ops_) {
  std::copy_if(ops_.begin(), ops_.end(), std::back_inserter(forward_ops_), [](const Op& op) {
    return op.kind == OpKind::receive_activation || op.kind == OpKind::forward || op.kind == OpKind::send_activation;
  });
  micro_batches_ = engine_.layout.micro_batches;
}

StepOutcome Executor::run(std::int64_t step, const Data& data, const VoteQuestion& vote) {
  step_ = step;
  stopped_ = {};
  vote_ = vote;
  engine_.compute.begin_step(step);
  execute(ops_, data,
          static_cast<std::uint64_t>(step - 1) * static_cast<std::uint64_t>(engine_.config.training.global_batch));
  if (marks_) {
    engine_.device.wait();  // on a GPU the update may still be running until here
    for (const int unit : self_.units) marks_->set(unit, step);
  }
  return outcome_;
}

void Executor::observe(OpObserver* operations, SumObserver* sums) {
  observer_ = operations;
  sum_observer_ = sums;
  if (engine_.tensor_group) engine_.tensor_group->observe(sums);
}

// Takes the observers off while it lives: what runs meanwhile is of no step.
class Executor::Unobserved {
 public:
  explicit Unobserved(Executor& executor)
      : executor_(executor), operations_(executor.observer_), sums_(executor.sum_observer_) {
    executor_.observe(nullptr, nullptr);
  }
  ~Unobserved() { executor_.observe(operations_, sums_); }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  Executor& executor_;
  OpObserver* const operations_;
  SumObserver* const sums_;
};

void Executor::connect() { engine_.fabric.transport().connect(peers(ops_, engine_.world.rank())); }

void Executor::rehearse(const Data& data) {
  Layout one = engine_.layout;
  one.micro_batches = micro_batches_ = 1;
  step_ = 1;
  vote_ = [] { return Vote{}; };
  engine_.compute.begin_step(1);
  connect();
  const Unobserved unobserved(*this);
  rehearsal_ = true;
  // Of any schedule: only what is computed and sent counts, not the order.
  execute(lower(one, options_, forwards_then_backwards(one), engine_.world.rank()), data, 0);
  rehearsal_ = false;
  micro_batches_ = engine_.layout.micro_batches;
}

// Asks the ranks between the batches of a validation. A pipeline runs empty whenever they agree, so it is not done
// after each batch; rank 0's clock decides for all how many batches come next.
class Executor::Interruption {
 public:
  Interruption(World& world, const std::function<bool()>& stop) : world_(world), stop_(stop) {}

  bool after_batch() {
    if (!stop_ || ++batches_ < next_) return false;
    // What rank 0 waits for the others here counts for the next time: the first stage may be far ahead of the last.
    const std::chrono::duration<double> took = Pace::Clock::now() - std::exchange(since_, Pace::Clock::now());
    std::array<double, 2> values = {stop_() ? 1.0 : 0.0, world_.rank() == 0 ? took.count() : 0.0};
    world_.sum(values);
    constexpr double kSeconds = 1, kMost = 1000;
    const double most = std::min(kMost, 4.0 * batches_);
    next_ = static_cast<int>(std::clamp(batches_ * kSeconds / std::max(values[1], 1e-9), 1.0, most));
    batches_ = 0;
    return values[0] > 0;
  }

 private:
  World& world_;
  const std::function<bool()>& stop_;
  Pace::Clock::time_point since_ = Pace::Clock::now();
  int batches_ = 0, next_ = 1;
};

std::optional<double> Executor::evaluate(const Data& data, int samples, const std::function<void()>& after_batch,
                                         const std::function<bool()>& stop) {
  const int batch = engine_.config.training.global_batch;
  ESPALIER_INVARIANT(samples > 0 && samples % batch == 0);
  const Unobserved unobserved(*this);
  Interruption interruption(engine_.world, stop);
  Evaluated done = std::exchange(stopped_, {});
  while (done.samples < samples) {
    engine_.compute.begin_evaluation();
    execute(forward_ops_, data, static_cast<std::uint64_t>(done.samples));
    done.sum += engine_.compute.loss_sum();
    done.samples += batch;
    if (after_batch) after_batch();
    if (done.samples < samples && interruption.after_batch()) {
      stopped_ = done;
      return std::nullopt;
    }
  }
  engine_.world.sum({&done.sum, 1});
  return done.sum / (Compute::kLossUnit * samples * engine_.config.model.sequence);
}

void Executor::execute(const std::vector<Op>& ops, const Data& data, std::uint64_t first_sample) {
  for (const Op& op : ops) {
    if (observer_) observer_->begin(op);
    began_ = Pace::Clock::now();
    execute(op, data, first_sample);
    if (!engine_.device_times.empty() && !rehearsal_) hold(op);
    if (observer_) observer_->end(op);
    go_on_beside();
  }
  engine_.fabric.transport().drain();
}

// MPI makes progress only when it is called.
void Executor::go_on_beside() {
  if (!reductions_.empty()) reductions_.begin()->second->poll();
  engine_.fabric.transport().poll();
  if (beside_) beside_();
}

// Waits until the imitated device would have finished the operation.
void Executor::hold(const Op& op) {
  const auto sum = [&](double UnitTimes::*pass) {
    if (op.unit >= 0) return engine_.device_times.at(op.unit).*pass;
    double all = 0;
    if (op.chunk >= 0) {
      const ChunkLayout& chunk = engine_.layout.chunks[static_cast<std::size_t>(op.chunk)];
      for (int unit = chunk.first_unit; unit <= chunk.last_unit(); ++unit) all += engine_.device_times.at(unit).*pass;
    }
    return all;
  };
  double seconds = 0;
  if (op.kind == OpKind::forward) seconds = sum(&UnitTimes::forward);
  else if (op.kind == OpKind::backward)
    seconds = sum(&UnitTimes::backward) + (options_.recompute ? sum(&UnitTimes::forward) : 0);
  else if (op.kind == OpKind::weight_gradient) seconds = sum(&UnitTimes::weight_gradient);
  else if (op.kind == OpKind::update) seconds = sum(&UnitTimes::update) / (engine_.parts.empty() ? 1 : self_.replicas);
  if (seconds <= 0) return;
  const Pace::Span span = pace_.hold(began_, std::chrono::duration<double>(seconds), [this] { go_on_beside(); });
  if (observer_) observer_->held(span.start, span.end);
}

void Executor::execute(const Op& op, const Data& data, std::uint64_t first_sample) {
  Compute& compute = engine_.compute;
  const auto each_unit = [&](const auto& work) {
    if (op.unit >= 0) return work(op.unit);
    const ChunkLayout& chunk = engine_.layout.chunks.at(static_cast<std::size_t>(op.chunk));
    for (int unit = chunk.last_unit(); unit >= chunk.first_unit; --unit) work(unit);
  };
  switch (op.kind) {
    case OpKind::receive_activation:
    case OpKind::receive_gradient:
    case OpKind::send_activation:
    case OpKind::send_gradient:
      return transfer(op);
    case OpKind::forward: {
      const std::uint64_t first =
          first_sample + static_cast<std::uint64_t>(op.micro_batch * engine_.layout.micro_batch + self_.first_sample);
      Batch batch;
      const bool ends = op.chunk == 0 || static_cast<std::size_t>(op.chunk) + 1 == engine_.layout.chunks.size();
      if (ends) batch = data.samples(first, self_.samples);
      await_arrivals(op);
      return compute.forward(op.chunk, op.micro_batch, first, batch);
    }
    case OpKind::backward:
      await_arrivals(op);
      return each_unit([&](int unit) { compute.backward(op.micro_batch, unit); });
    case OpKind::weight_gradient:
      // Without replicas a unit's gradient is complete here; with replicas, after its reduction.
      return each_unit([&](int unit) {
        compute.weight_gradient(op.micro_batch, unit);
        if (++weighted_[unit] < micro_batches_) return;
        weighted_[unit] = 0;
        if (self_.replicas == 1) compute.reduced(unit);
      });
    case OpKind::reduce:
      return start_reduction(op.unit);
    case OpKind::finish_reduce:
      finish(reductions_, op.unit);
      return compute.reduced(op.unit);
    case OpKind::send_tied:
      return tied_.send(op);
    case OpKind::receive_tied:
      return tied_.receive(op);
    case OpKind::add_tied: {
      const TiedRows::Rows rows = tied_.take(op);
      if (observer_) observer_->arrived();
      return compute.add_tied(op.unit, {op.first, op.count}, rows.buffer);
    }
    case OpKind::agree:
      return agree();
    case OpKind::update:
      if (rehearsal_) return;
      return update(op.unit);
    case OpKind::gather:
      if (rehearsal_) return;
      gathers_[op.unit] = engine_.replicas->start_gather(compute.parameters(op.unit), engine_.parts.at(op.unit));
      return;
    case OpKind::finish_gather:
      if (rehearsal_) return;
      return finish(gathers_, op.unit);
  }
}

// On CPU each unit is marked as soon as it is updated, so that a death now tears as few units as
// possible.
void Executor::update(int unit) {
  if (marks_) marks_->set(unit, -1);
  engine_.compute.update(unit, step_, outcome_.learning_rate, scale_);
  const bool gathers = engine_.parts.count(unit) != 0;
  if (marks_ && !gathers && engine_.device.kind() == DeviceKind::cpu) marks_->set(unit, step_);
}

void Executor::await_arrivals(const Op& op) {
  if (auto arrived = arrivals_.extract({op.kind, op.chunk, op.micro_batch}))
    for (const auto& arrival : arrived.mapped()) arrival->wait();
  began_ = Pace::Clock::now();
  if (observer_) observer_->arrived();
}

Address Executor::address(const Op& op) const {
  const bool up = op.kind == OpKind::send_activation || op.kind == OpKind::receive_gradient;
  const std::int64_t boundary = op.chunk - (up ? 0 : 1);  // by the chunk before it
  return {op.peer, lane_of(op), static_cast<int>((boundary * micro_batches_ + op.micro_batch) % kMessageTags)};
}

void Executor::transfer(const Op& op) {
  const int first = op.first - self_.first_sample;
  Transport& transport = engine_.fabric.transport();
  Compute& compute = engine_.compute;
  if (is_receive(op.kind)) {
    const Buffer into = op.kind == OpKind::receive_activation
                            ? compute.input(op.chunk, op.micro_batch, first, op.count)
                            : compute.output_gradient(op.chunk, op.micro_batch, first, op.count);
    const OpKind waits = op.kind == OpKind::receive_activation ? OpKind::forward : OpKind::backward;
    arrivals_[{waits, op.chunk, op.micro_batch}].push_back(transport.start_receive(into, address(op)));
  } else {
    Slice slice = op.kind == OpKind::send_activation
                      ? compute.output(op.chunk, op.micro_batch, first, op.count)
                      : compute.input_gradient(op.chunk, op.micro_batch, first, op.count);
    transport.post(slice.buffer, address(op), std::move(slice.keep));
  }
}

// The parts into which a unit's sum is scattered; null: every replica needs the whole sum. With
// relaxed ZeRO-1 a replica needs only its own part. Bitwise needs the whole, because a norm must be
// the same for any number of parts. So does the tied table, because its gradient is exchanged by
// rows.
const std::vector<Range>* Executor::parts(int unit) const {
  if (engine_.parts.empty() || engine_.config.training.accuracy == Accuracy::bitwise) return nullptr;
  if (options_.tied_rows > 0 && (unit == 0 || unit == engine_.layout.units - 1)) return nullptr;
  return &engine_.parts.at(unit);
}

void Executor::start_reduction(int unit) {
  const Buffer gradient = engine_.compute.gradient(unit);
  const std::vector<Range>* scattered = parts(unit);
  reductions_[unit] =
      scattered ? engine_.replicas->start_reduce_scatter(gradient, *scattered) : engine_.replicas->start_sum(gradient);
}

void Executor::finish(std::map<int, std::unique_ptr<Pending>>& under_way, int unit) {
  const auto found = under_way.find(unit);
  ESPALIER_INVARIANT(found != under_way.end());
  found->second->wait();
  under_way.erase(found);
}

void Executor::agree() {
  std::vector<Compute::NormOf> counted;
  for (const int unit : self_.units) {
    const bool whole = parts(unit) == nullptr;
    if (!whole || unit % self_.replicas == self_.replica) counted.push_back({unit, whole});
  }
  agreement_.exchange(step_, counted, vote_);
  if (rehearsal_) return;
  outcome_ = agreement_.outcome();
  const double clip = engine_.config.training.clip_norm;
  scale_ = clip > 0 && outcome_.gradient_norm > clip ? clip / (outcome_.gradient_norm + 1e-6) : 1;
  if (before_change_) before_change_();
  if (!marks_) return;
  marks_->agreed(step_, outcome_.loss, outcome_.gradient_norm, outcome_.learning_rate);
  // No rank changes its state before all ranks have the agreement. So when a rank dies while it
  // waits for the agreement, the state of all ranks is still unchanged.
  if (engine_.world.size() > 1) engine_.world.barrier();
}

}  // namespace espalier::torchrt
