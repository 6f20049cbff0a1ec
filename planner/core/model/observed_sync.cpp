#include "planner/core/model/observed_sync.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/monotone_root.hpp"
#include "planner/core/model/stage_rates.hpp"
#include "planner/core/model/unit_sums.hpp"

namespace espalier {
namespace {

// A sum shorter than this share of the backward pass shows what it costs to start sums, and not how much is hidden. The
// share was chosen, not measured.
constexpr double kTellingSum = 0.25;
constexpr double kMostSlower = 1e6;
constexpr double kRounding = 1e-9;  // relative error of arithmetic, as opposed to measurement

class OverlapInversion {
 public:
  OverlapInversion(Calibration& result, const Hardware& hardware, const PlacedPlan& plan, double known_rail,
                   bool any_program)
      : result_(result), hardware_(hardware), placed_(plan), known_rail_(known_rail), any_program_(any_program) {}

  void solve(const std::vector<ObservedSync>& seen) {
    rails(seen);
    for (const ObservedSync& one : seen) beyond(one);
    std::vector<bool> within(job().gpu.size(), false);
    for (const ObservedSync& one : seen) {
      const auto type = static_cast<std::size_t>(one.type);
      if (job().sums_by_unit && whole_sync(one) < kTellingSum * one.bwd) continue;
      const Overlap overlap = overlap_of(one);
      GpuCoefficients& gpu = job().gpu[type];
      if (!gpu.assumed_overlap && (within[type] || !overlap.within)) continue;
      gpu.overlap = overlap.exponent;
      gpu.assumed_overlap = false;
      within[type] = overlap.within;
    }
    if (seen.empty())
      result_.remarks.push_back("no synchronization of gradients was seen: none of it is taken to overlap");
  }

 private:
  JobCoefficients& job() { return result_.job; }
  const PlacedStage& placed(const ObservedSync& one) const {
    return placed_.stages[static_cast<std::size_t>(one.stage)];
  }

  // A program of unknown kind is planned by what it measured, whatever its bytes and the cluster's bandwidths say.
  void beyond(const ObservedSync& one) {
    if (!any_program_) return;
    const auto replicas = static_cast<double>(one.replicas);
    const double more = one.sync - unhidden(one);
    job().sync_beyond = std::max(0.0, more) * replicas / (replicas - 1) / one.layers;
  }

  // What islands of one machine send each other passes no rail between nodes.
  // Sums between nodes that take longer than the links allow, though nothing were hidden: the links are slower. Others
  // tell the links' speed only where what is known of it cannot be, since a part of them may be hidden.
  void rails(const std::vector<ObservedSync>& seen) {
    double measured = 0, most = std::numeric_limits<double>::infinity();
    for (const ObservedSync& one : seen) {
      const StageShape& shape = placed(one).shape;
      if (placed(one).one_machine || any_program_) continue;
      const double modelled = unhidden(one);
      if (!(modelled > 0)) continue;
      double nic = std::numeric_limits<double>::infinity();
      for (int c = 0; c < shape.class_count; ++c)
        nic = std::min(
            nic,
            hardware_.kinds[static_cast<std::size_t>(shape.classes[static_cast<std::size_t>(c)].kind)].nic_bandwidth);
      if (one.sync > modelled * (1 + kRounding)) {
        measured = std::max(measured, one.sync / modelled / nic);
        doubt(one, modelled, one.sync);
      }
      most = std::min(most, explained_by_overlap(one) / whole_sync(one) / nic);
    }
    const bool contradicted = known_rail_ > most;
    job().assumed_rail = measured == 0 && !contradicted;
    job().rail_ms_per_byte = measured > 0 ? measured : std::min(known_rail_, most);
  }

  // The longest all-reduce of which complete overlap leaves the measured part.
  double explained_by_overlap(const ObservedSync& one) {
    if (job().sums_by_unit) {
      const auto exposed = [&](double slower) { return exposed_at(one, kMostOverlap, slower); };
      const double slower =
          exposed(kMostSlower) <= one.sync ? kMostSlower : increasing_root_above_zero(exposed, one.sync, 1.0);
      return slower * whole_sync(one);
    }
    const SyncParts unit = sync_parts(job(), 1);
    const double hidden = unit.gather > 0 ? one.sync / unit.gather : std::numeric_limits<double>::infinity();
    return unit.sum * hidden <= one.bwd ? hidden : (one.sync + one.bwd) / (unit.sum + unit.gather);
  }

  double whole_sync(const ObservedSync& one) {
    const PlacedStage& stage = placed(one);
    return stage_load(job(), one.layers, one.first, one.last).gradient_bytes *
           stage_rates(hardware_, job(), stage.shape, stage.shares).gradient_ms_per_byte;
  }

  double exposed_at(const ObservedSync& one, double overlap, double slower) {
    const PlacedStage& stage = placed(one);
    StageRates rates = stage_rates(hardware_, job(), stage.shape, stage.shares);
    rates.overlap = overlap;
    return exposed_unit_sums(job(), rates, one.layers, one.first, one.last, slower);
  }

  // All of the synchronization, if the backward pass hid nothing.
  double unhidden(const ObservedSync& one) {
    const SyncParts parts = sync_parts(job(), whole_sync(one));
    return parts.sum + parts.gather;
  }

  struct Overlap {
    double exponent = 1;
    bool within = false;  // an exponent explains the measurement
  };
  Overlap overlap_of(const ObservedSync& one) {
    const double gradient = whole_sync(one), whole = unhidden(one);
    const auto exposed_with = [&](double overlap) {
      return job().sums_by_unit ? exposed_at(one, overlap, 1) : exposed_gradients(job(), one.bwd, gradient, overlap);
    };
    const double least = exposed_with(kMostOverlap);
    const SyncParts parts = sync_parts(job(), gradient);
    const double unhideable = job().sums_by_unit ? 0 : std::max(0.0, parts.sum - one.bwd) + parts.gather;
    if (one.sync > whole * (1 + kRounding)) {
      doubt(one, whole, one.sync);
      return {1, false};
    }
    if (one.sync < unhideable * (1 - kRounding)) {
      // Even complete overlap does not explain the measurement.
      doubt(one, gradient, explained_by_overlap(one));
      return {kMostOverlap, false};
    }
    if (one.sync >= whole) return {1, true};
    if (one.sync <= least) return {kMostOverlap, true};
    const auto exposed = [&](double minus) { return exposed_with(-minus); };
    return {-increasing_root(exposed, one.sync, -kMostOverlap, -1.0), true};
  }

  void doubt(const ObservedSync& one, double modelled, double explaining) {
    if (job().sync_beyond > 0) return;  // it is in the coefficients
    result_.doubts.push_back({one.stage, modelled, explaining});
    result_.remarks.push_back("stage " + std::to_string(one.stage) + ": the gradient synchronization should take " +
                              std::to_string(modelled) + " ms, " + std::to_string(explaining) +
                              " ms would explain what was measured: check the cluster's bandwidths");
  }

  Calibration& result_;
  const Hardware& hardware_;
  const PlacedPlan& placed_;
  const double known_rail_;
  const bool any_program_;
};

}  // namespace

void infer_overlaps(Calibration& result, const Hardware& hardware, const PlacedPlan& plan,
                    const std::vector<ObservedSync>& seen, double known_rail, bool any_program) {
  OverlapInversion(result, hardware, plan, known_rail, any_program).solve(seen);
}

}  // namespace espalier
