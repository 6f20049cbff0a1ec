#include "torchrt/profiler/profiler.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "planner/core/model/step_statistics.hpp"
#include "torchrt/device/driver_version.hpp"
#include "torchrt/profiler/replica_times.hpp"
#include "torchrt/profiler/trace.hpp"
#include "torchrt/reported_shape.hpp"

namespace espalier::torchrt {

namespace {

// Steps that are measured together.
constexpr std::int64_t kWindow = 4;
// Steps are measured densely for at least this time, unless they are calm before.
constexpr double kLeastSeconds = 2;
// Of a replica with too few measured steps. JSON has no infinity.
constexpr double kUnknownSpread = 1000;

// One replica's figures, given by its TP rank 0.
constexpr std::array kFigures = {&ReplicaProfile::fwd,
                                 &ReplicaProfile::comm_fwd,
                                 &ReplicaProfile::bwd,
                                 &ReplicaProfile::bwd_weights,
                                 &ReplicaProfile::optim,
                                 &ReplicaProfile::gradient_bytes,
                                 &ReplicaProfile::weight_bytes,
                                 &ReplicaProfile::state_bytes,
                                 &ReplicaProfile::edge_gradient_bytes,
                                 &ReplicaProfile::edge_state_bytes,
                                 &ReplicaProfile::peak_bytes};
constexpr std::size_t kSync = kFigures.size(), kSpread = kSync + 1, kWidth = kSpread + 1;

}  // namespace

Profiler::Profiler(const Config& config, World& world, Device& device, RankState& state, int generation)
    : config_(config),
      world_(world),
      state_(state),
      recorder_(make_timeline(device)),
      links_(config.profile.every > 0 ? config.profile.links : 0, world, device, state),
      driver_(device.kind() == DeviceKind::cuda ? driver_version() : "") {
  if (config.profile.every > 0 && !config.profile.trace.empty())
    trace_.emplace("profile.trace", trace_file(config.profile.trace, world.rank()),
                   generation == 0 ? LineFile::Absent::is_error : LineFile::Absent::is_told);
}

bool Profiler::wanted(std::int64_t step) const {
  if (dense_) return step > first_;
  const std::int64_t every = config_.profile.every;
  const std::int64_t window = std::min(every, kWindow), last = (step + every - 1) / every * every;
  // The first step of a generation still warms up.
  return step > last - window && last - window >= first_;
}

void Profiler::before(std::int64_t step) {
  if (config_.profile.every == 0) return;
  if (first_ == 0) {
    first_ = step;
    began_ = std::chrono::steady_clock::now();
    dense_ = config_.profile.dense > 0;
  }
  if (!measuring_ && wanted(step)) {
    measuring_ = true;
    state_.observe(&recorder_, &recorder_);
    state_.compute().reset_peak();
  }
  if (measuring_) recorder_.begin_step(step);
}

std::optional<Profile> Profiler::after(std::int64_t step) {
  if (!measuring_) return std::nullopt;
  if (!dense_) {
    if (step % config_.profile.every != 0) return std::nullopt;
    stop();
    collect();
    return report(step);
  }
  ++densely_;
  if (densely_ % kWindow != 0) return std::nullopt;
  collect();
  constexpr std::int64_t kMost = StepSamples::kMost;
  if (densely_ > kMost && densely_ % kMost != 0) return std::nullopt;
  auto profile = report(step);
  if (!dense_) stop();
  return profile;
}

void Profiler::look_at_links() {
  if (reported_) links_.at(*std::exchange(reported_, std::nullopt));
}

void Profiler::stop() {
  measuring_ = false;
  state_.observe(nullptr, nullptr);
}

void Profiler::begin_anew(bool sent) {
  tells_peak_ = !sent;
  if (measuring_) recorder_.take();
  measuring_ = dense_ = false;
  samples_ = StepSamples();
  first_ = densely_ = 0;
  links_.begin_anew();
}

void Profiler::collect() {
  const std::vector<OpTimes> times = recorder_.take();
  if (trace_) append_trace(*trace_, world_.rank(), times);
  samples_.add(times, state_.layout().micro_batches);
}

std::optional<Profile> Profiler::report(std::int64_t step) {
  ReplicaProfile own = samples_.summary();
  own.spread = std::min(*own.spread, kUnknownSpread);
  // Only one unit's weight gradients follow the last input gradient.
  if (config_.training.recompute) own.bwd_weights = 0;
  sizes(own);
  return gather(own, step);
}

void Profiler::sizes(ReplicaProfile& own) const {
  const int last_unit = state_.layout().units - 1;
  const double gradient = config_.training.accuracy == Accuracy::bitwise ? sizeof(std::int64_t) : sizeof(float);
  double state_bytes = 0, gradients = 0;
  for (const int unit : state_.units()) {
    const StateLayout state = state_.state_layout(unit);
    const auto elements = static_cast<double>(state.floats);
    state_bytes += static_cast<double>(state.bytes());
    gradients += static_cast<double>(state_.gradient(unit).bytes());
    if (unit == 0 || unit == last_unit) {
      own.edge_gradient_bytes += gradient * elements;
      own.edge_state_bytes += static_cast<double>(state.bytes());
    } else {
      own.gradient_bytes += gradient * elements;
      own.weight_bytes += static_cast<double>(state.parameter_bytes());
      own.state_bytes += static_cast<double>(state.bytes());
    }
  }
  if (tells_peak_) own.peak_bytes = state_bytes + gradients + static_cast<double>(state_.compute().peak_bytes());
}

// One sum over all ranks, in which every replica fills its own place, and rank 0 the last one: the
// time since the generation's first step. All ranks so know the same, and end the dense part alike.
std::optional<Profile> Profiler::gather(const ReplicaProfile& own, std::int64_t step) {
  const Plan& plan = state_.plan();
  const RankLayout& self = state_.self();
  std::vector<ReplicaProfile> replicas;
  std::size_t place = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (std::size_t j = 0; j < plan.stages[s].replicas.size(); ++j) {
      if (static_cast<int>(s) == self.stage && static_cast<int>(j) == self.replica) place = replicas.size();
      ReplicaProfile& one = replicas.emplace_back();
      one.stage = static_cast<int>(s), one.replica = static_cast<int>(j);
    }
  std::vector<double> all(replicas.size() * kWidth + 1, 0.0);
  if (world_.rank() == 0) all.back() = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  if (self.tp_rank == 0) {
    double* const mine = all.data() + place * kWidth;
    for (std::size_t i = 0; i < kFigures.size(); ++i) mine[i] = own.*kFigures[i];
    mine[kSync] = own.sync.value_or(0);
    mine[kSpread] = own.spread.value_or(0);
  }
  world_.sum(all);
  reported_ = all.back();
  double spread = 0;
  for (std::size_t r = 0; r < replicas.size(); ++r) spread = std::max(spread, all[r * kWidth + kSpread]);
  if (spread <= kCalmSpread || (densely_ >= config_.profile.dense && all.back() >= kLeastSeconds)) dense_ = false;
  if (world_.rank() != 0) return std::nullopt;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const double* const theirs = all.data() + r * kWidth;
    for (std::size_t i = 0; i < kFigures.size(); ++i) replicas[r].*kFigures[i] = theirs[i];
    if (plan.stages[static_cast<std::size_t>(replicas[r].stage)].replicas.size() > 1) replicas[r].sync = theirs[kSync];
    replicas[r].spread = theirs[kSpread];
  }
  Profile profile;
  profile.plan = plan;
  profile.shape = reported_shape(config_);
  profile.boundary_bytes = static_cast<double>(size_of(config_.training.dtype)) * config_.model.sequence *
                           static_cast<double>(config_.model.hidden);  // of one activation (flow.hpp)
  profile.recompute = config_.training.recompute;
  profile.zero1 = config_.training.zero1;
  profile.replicas = reported(std::move(replicas), plan);
  profile.step = step;
  profile.steps = samples_.steps();
  profile.layer_times = alone_.layers;
  profile.edge_times = alone_.edges;
  profile.driver = driver_;
  return profile;
}

}  // namespace espalier::torchrt
