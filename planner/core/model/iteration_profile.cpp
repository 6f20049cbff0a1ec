#include "planner/core/model/iteration_profile.hpp"

#include <algorithm>
#include <set>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/monotone_root.hpp"
#include "planner/core/model/roofline.hpp"

namespace espalier {
namespace {

class IterationInversion {
 public:
  IterationInversion(const Hardware& hardware, JobCoefficients sizes, const PlacedPlan& plan, IterationTimes measured)
      : hardware_(hardware), plan_(plan), measured_(measured), job_(std::move(sizes)) {
    for (const PlacedStage& stage : plan.stages) {
      synchronizes_ = synchronizes_ || stage.shape.replicas > 1;
      for (int c = 0; c < stage.shape.class_count; ++c)
        types_.insert(stage.shape.classes[static_cast<std::size_t>(c)].type);
    }
    for (GpuCoefficients& gpu : job_.gpu) gpu = {};
  }

  JobCoefficients solve() {
    optimizer();
    if (measured_.forward_backward > 0) {
      computation(measured_.forward_backward, false);
      gradients();
    } else {
      computation(measured_.iteration, true);
    }
    const bool one_type = types_.size() == 1;
    for (const int type : types_) {
      GpuCoefficients& gpu = job_.gpu[static_cast<std::size_t>(type)];
      gpu.assumed_comp = !(measured_.forward_backward > 0 && one_type);
      gpu.assumed_optim = !(measured_.optimizer > 0 && one_type);
      gpu.assumed_overlap = !(overlap_seen_ && one_type);
    }
    return std::move(job_);
  }

 private:
  double speed(std::size_t type) const {
    return times_as_fast(hardware_.types[type], hardware_.types.front(),
                         compared_traffic(hardware_, job_.traffic_per_flop));
  }

  void set_computation(double at_unit_speed) {
    for (std::size_t t = 0; t < job_.gpu.size(); ++t) job_.gpu[t].comp = at_unit_speed / speed(t);
  }
  void set_overlap(double overlap) {
    for (GpuCoefficients& gpu : job_.gpu) gpu.overlap = overlap;
  }

  double iteration(bool with_end) const {
    auto times = stage_times(hardware_, job_, plan_);
    if (!with_end)
      for (StageTime& time : times) time.extra = 0;
    return exact_iteration(hardware_, job_, plan_, times);
  }

  void optimizer() {
    const bool by_bandwidth = bandwidths_known(hardware_);
    // Adam reads parameters, gradients and both moments. It writes parameters and both moments.
    const double traffic = 2 * job_.param_optim_bytes + job_.param_bytes;
    for (std::size_t t = 0; t < job_.gpu.size(); ++t)
      job_.gpu[t].optim = by_bandwidth              ? traffic / hardware_.types[t].memory_bandwidth
                          : measured_.optimizer > 0 ? 1 / speed(t)
                                                    : 0;
    if (measured_.optimizer <= 0) return;
    double slowest = 0;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const PlacedStage& stage = plan_.stages[s];
      const StageLoad load = stage_load(job_, stage.layers, s == 0, plan_.position(static_cast<int>(s), job_).last());
      const double layers = job_.param_bytes > 0 ? load.gradient_bytes / job_.param_bytes : stage.layers;
      slowest = std::max(slowest, stage_rates(hardware_, job_, stage.shape, stage.shares).optim * layers);
    }
    for (GpuCoefficients& gpu : job_.gpu) gpu.optim *= measured_.optimizer / slowest;
  }

  void computation(double target, bool with_end) {
    const auto total = [&](double at_unit_speed) {
      set_computation(at_unit_speed);
      return iteration(with_end);
    };
    // The iteration is faster than communication and the assumed optimizer alone would be. Both are
    // then too slow for this job, and the time does not show how to divide it. All of it counts as
    // computation.
    const double activ_bytes = job_.activ_bytes;
    if (total(0) >= target) {
      if (measured_.optimizer <= 0)
        for (GpuCoefficients& gpu : job_.gpu) gpu.optim = 0;
      job_.activ_bytes = 0;
      with_end = false;
    }
    set_computation(increasing_root_above_zero(total, target, target));
    job_.activ_bytes = activ_bytes;
  }

  void gradients() {
    const double explained = iteration(true);
    if (explained < measured_.iteration) {
      computation(measured_.iteration, true);
    } else if (synchronizes_ && measured_.optimizer > 0) {
      // The iteration decreases in k_overlap, so it increases in -k_overlap.
      const auto total = [&](double hidden) {
        set_overlap(-hidden);
        return iteration(true);
      };
      set_overlap(-increasing_root(total, measured_.iteration, -64, -1));
    }
    overlap_seen_ = synchronizes_ && measured_.optimizer > 0;
  }

  const Hardware& hardware_;
  const PlacedPlan& plan_;
  const IterationTimes measured_;
  JobCoefficients job_;
  std::set<int> types_;
  bool synchronizes_ = false, overlap_seen_ = false;
};

}  // namespace

JobCoefficients calibrate_iteration(const Hardware& hardware, JobCoefficients sizes, const PlacedPlan& plan,
                                    const IterationTimes& measured) {
  if (!(measured.iteration > 0)) throw Error("iteration time: must be positive to calibrate a job from it");
  sizes.gpu.resize(hardware.types.size());
  return IterationInversion(hardware, std::move(sizes), plan, measured).solve();
}

JobCoefficients assumed_coefficients(const Hardware& hardware, const Topology& topology, const ModelShape& shape,
                                     const Training& training, const Plan& plan, double step_ms,
                                     std::shared_ptr<const OwnLists> own_lists) {
  JobCoefficients sizes = model_sizes(shape, training, hardware.types.size());
  if (has_several_units(shape)) sizes.degree_factors = {{plan.stages.front().tp, 1}};
  sizes.own_lists = std::move(own_lists);
  JobCoefficients found = calibrate_iteration(hardware, std::move(sizes), place_plan(topology, plan), {step_ms, 0, 0});
  found.own_lists.reset();
  return found;
}

}  // namespace espalier
