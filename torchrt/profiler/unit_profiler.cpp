#include "torchrt/profiler/unit_profiler.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "torchrt/model/compute.hpp"
#include "torchrt/model/initialise.hpp"
#include "torchrt/pace.hpp"
#include "torchrt/place_parameters.hpp"
#include "torchrt/profiler/absent_peers.hpp"
#include "torchrt/profiler/step_samples.hpp"
#include "torchrt/random.hpp"

namespace espalier::torchrt {

namespace {

constexpr double kUnknownSpread = 1000;  // as Profiler has it: JSON has no infinity

// A model of one layer has one unit of each kind. Each is a chunk on a stage of its own, and this rank's is the one to
// be measured.
Config one_layer(const Config& config) {
  Config one = config;
  one.model.layers = 1;
  return one;
}

Layout alone(const UnitShare& share) {
  const int unit = static_cast<int>(share.kind), units = static_cast<int>(std::size(kUnitKinds));
  RankLayout rank;
  rank.stage = unit;
  rank.tp = share.tp;
  rank.samples = share.samples;
  rank.units = rank.chunks = {unit};
  rank.has_embedding = share.kind == UnitKind::embedding;
  rank.has_head = share.kind == UnitKind::head;
  Layout layout;
  layout.micro_batches = 1;
  layout.micro_batch = share.samples;
  layout.units = units;
  layout.ranks = {rank};
  for (int i = 0; i < units; ++i) {
    layout.stages.push_back({0, 1, share.tp});
    layout.chunks.push_back({i, i, 1});
  }
  return layout;
}

class UnitRun {
 public:
  UnitRun(const Config& config, Device& device, const UnitShare& share)
      : config_(one_layer(config)),
        device_(device),
        share_(share),
        unit_(static_cast<int>(share.kind)),
        layout_(alone(share)),
        spec_(unit_spec(config_.model, unit_, share.tp, 0)),
        state_(torchrt::state_layout(spec_, config_.training.dtype, config_.training.zero1 ? share.replicas : 1, 0)),
        peers_(share.tp),
        recorder_(make_timeline(device)) {
    if (config_.device.imitated()) times_ = config_.device.times_of(config_.model, unit_, share.tp, share.samples);
    const bool bitwise = config_.training.accuracy == Accuracy::bitwise;
    memory_ = device_.allocate(state_.bytes(), "espalier-profiled-unit");
    gradient_ = device_.allocate(gradient_bytes(spec_.floats, bitwise), "espalier-profiled-gradient");
    std::vector<float> parameters(spec_.floats, 0.0F);
    initialise(spec_, config_.training.seed, parameters);
    place_parameters(parameters, state_, device_, memory_->data());
    compute_ = std::make_unique<Compute>(config_, layout_, 0, device_, share.tp > 1 ? &peers_ : nullptr,
                                         std::vector{UnitView{&spec_, state_, memory_->data(), gradient_->data()}});
    make_inputs();
  }

  MeasuredUnit measure(const UnitRounds& rounds) {
    using Clock = std::chrono::steady_clock;
    MeasuredUnit result;
    const Clock::time_point start = Clock::now();
    const auto seconds = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    StepSamples samples;
    for (int i = 0; i < rounds.warmup && (i == 0 || seconds() < rounds.most_seconds); ++i) round();
    device_.wait();
    recorder_.take();
    while (result.timed < rounds.timed && (result.timed == 0 || seconds() < rounds.most_seconds)) {
      round();
      samples.add(recorder_.take(), 1);
      ++result.timed;
    }
    result.seconds = seconds();
    const ReplicaProfile times = samples.summary();
    UnitProfile& unit = result.profile;
    unit.kind = share_.kind;
    unit.forward = times.fwd;
    unit.backward = times.bwd - times.bwd_weights;
    unit.weight_gradient = times.bwd_weights;
    unit.optimizer = times.optim;
    unit.spread = std::min(times.spread.value_or(kUnknownSpread), kUnknownSpread);
    unit.forward_sums = forward_sums_;
    unit.backward_sums = backward_sums_;
    sizes(unit);
    memory(result);
    return result;
  }

 private:
  bool first() const { return share_.kind == UnitKind::embedding; }
  bool last() const { return share_.kind == UnitKind::head; }

  void make_inputs() {
    const std::size_t tokens =
        static_cast<std::size_t>(share_.samples) * static_cast<std::size_t>(config_.model.sequence);
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto token = [&](std::uint64_t which) {
        return static_cast<std::int64_t>(mix(which, i) % static_cast<std::uint64_t>(config_.model.vocabulary));
      };
      batch_.tokens.push_back(token(1));
      batch_.targets.push_back(token(2));
    }
    // Between -1 and 1. The first bytes of a float32 are a bfloat16.
    const std::size_t width = size_of(config_.training.dtype);
    activations_.resize(tokens * static_cast<std::size_t>(config_.model.hidden) * width);
    for (std::size_t at = 0; at < activations_.size(); at += width) {
      const auto value = static_cast<float>(static_cast<double>(mix(3, at) >> 11) * 0x1p-52 - 1.0);
      char bytes[sizeof value];
      std::memcpy(bytes, &value, sizeof value);
      std::memcpy(activations_.data() + at, bytes + sizeof value - width, width);
    }
  }

  void fill(const Buffer& buffer) { device_.from_host(buffer.data, activations_.data(), buffer.bytes()); }

  // As Executor does it.
  template <class Work>
  void timed(OpKind kind, double device_seconds, const Work& work) {
    Op op{kind, 0, unit_};
    op.chunk = unit_;
    recorder_.begin(op);
    recorder_.arrived();
    const Pace::Clock::time_point began = Pace::Clock::now();
    work();
    if (times_ && device_seconds > 0) {
      const Pace::Span span = pace_.hold(began, std::chrono::duration<double>(device_seconds), [] {});
      recorder_.held(span.start, span.end);
    }
    recorder_.end(op);
  }

  void forward(int micro_batch) {
    if (!first()) fill(compute_->input(unit_, micro_batch, 0, share_.samples));
    const UnitTimes times = times_.value_or(UnitTimes{});
    timed(OpKind::forward, times.forward, [&] { compute_->forward(unit_, micro_batch, 0, batch_); });
  }

  void backward(int micro_batch) {
    if (!last()) fill(compute_->output_gradient(unit_, micro_batch, 0, share_.samples));
    const UnitTimes times = times_.value_or(UnitTimes{});
    const double again = config_.training.recompute ? times.forward : 0;
    timed(OpKind::backward, times.backward + again, [&] { compute_->backward(micro_batch, unit_); });
  }

  void weight_gradient(int micro_batch) {
    const UnitTimes times = times_.value_or(UnitTimes{});
    timed(OpKind::weight_gradient, times.weight_gradient, [&] { compute_->weight_gradient(micro_batch, unit_); });
  }

  void update() {
    const UnitTimes times = times_.value_or(UnitTimes{});
    const int parts = config_.training.zero1 ? share_.replicas : 1;
    timed(OpKind::update, times.update / parts,
          [&] { compute_->update(unit_, step_, config_.training.learning_rate, 1); });
  }

  void begin() {
    compute_->begin_step(++step_);
    recorder_.begin_step(step_);
  }

  void round() {
    begin();
    peers_.take();
    forward(0);
    forward_sums_ = peers_.take();
    backward(0);
    weight_gradient(0);
    backward_sums_ = peers_.take();
    compute_->reduced(unit_);
    update();
  }

  void sizes(UnitProfile& unit) const {
    const bool bitwise = config_.training.accuracy == Accuracy::bitwise;
    unit.weight_bytes = static_cast<double>(state_.parameter_bytes());
    unit.state_bytes = static_cast<double>(state_.bytes());
    unit.gradient_bytes =
        static_cast<double>(bitwise ? sizeof(std::int64_t) : sizeof(float)) * static_cast<double>(spec_.floats);
    unit.accumulator_bytes = static_cast<double>(gradient_->bytes());
  }

  // The peak since reset_peak() is what stands, until something is allocated.
  double standing() {
    device_.wait();
    compute_->reset_peak();
    return peak();
  }
  double peak() {
    device_.wait();
    return static_cast<double>(compute_->peak_tensor_bytes());
  }

  void memory(MeasuredUnit& result) {
    begin();
    const double empty = standing();
    forward(0);
    double most = peak();
    const double held = standing();
    most -= held;
    backward(0);
    most = std::max(most, peak() - held);
    const double pending = standing();
    weight_gradient(0);
    compute_->reduced(unit_);
    most = std::max(most, peak() - pending);
    compute_->begin_step(step_);
    const double before = standing();
    update();
    most = std::max(most, peak() - before);
    result.profile.held_bytes = std::max(0.0, held - empty);
    result.profile.pending_bytes = config_.training.recompute ? 0 : std::max(0.0, pending - empty);
    result.profile.working_bytes = std::max(0.0, most);
    result.shared_bytes = empty;
    recorder_.take();
  }

  const Config config_;
  Device& device_;
  const UnitShare share_;
  const int unit_;
  const Layout layout_;
  const UnitSpec spec_;
  const StateLayout state_;
  AbsentPeers peers_;
  OpRecorder recorder_;
  std::optional<UnitTimes> times_;  // of an imitated device
  Pace pace_;
  std::unique_ptr<Allocation> memory_, gradient_;
  std::unique_ptr<Compute> compute_;
  Batch batch_;
  std::vector<char> activations_;
  std::int64_t step_ = 0;
  AbsentSums forward_sums_, backward_sums_;
};

}  // namespace

MeasuredUnit measure_unit(const Config& config, Device& device, const UnitShare& share, const UnitRounds& rounds) {
  return UnitRun(config, device, share).measure(rounds);
}

}  // namespace espalier::torchrt
