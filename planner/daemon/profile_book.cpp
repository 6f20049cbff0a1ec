#include "planner/daemon/profile_book.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/step_statistics.hpp"

namespace espalier {
namespace {

// In ms or bytes. Far below the largest double, so that no sum over a plan overflows.
constexpr double kMost = 1e30;

// A launcher's figures come from a user. No figure may make the model divide by zero or overflow.
bool usable(const JobCoefficients& job) {
  const auto finite = [](double value) { return value >= 0 && value <= kMost; };  // NaN is neither
  bool good = finite(job.activ_bytes) && finite(job.param_bytes) && finite(job.param_optim_bytes) &&
              finite(job.weight_bytes) && finite(job.activ_p_bytes) && finite(job.activ_np_bytes) &&
              finite(job.tied_bytes) && finite(job.sync_beyond) && finite(job.rail_ms_per_byte) &&
              finite(job.fixed_samples) && finite(job.traffic_per_flop);
  for (const DegreeFactor& one : job.degree_factors) good = good && one.factor > 0 && one.factor <= kMost;
  for (const EdgeCoefficients& edge : {job.first, job.last})
    good = good && finite(edge.compute_layers) && finite(edge.param_bytes) && finite(edge.param_optim_bytes) &&
           finite(edge.activation_bytes);
  return good && std::all_of(job.gpu.begin(), job.gpu.end(), [&](const GpuCoefficients& gpu) {
           return finite(gpu.comp) && gpu.comp > 0 && finite(gpu.backward) && finite(gpu.optim) &&
                  finite(gpu.overlap) && gpu.overlap >= 1;
         });
}

}  // namespace

ProfileBook::News ProfileBook::add(const Site& site, const Profile& profile, int generation,
                                   const std::shared_ptr<const OwnLists>& own_lists) {
  const bool other_plan = generation != generation_ || (plan_ && *plan_ != profile.plan);
  if (!other_plan && profile.step == step_) return News::none;
  if (hardware_ && !(*hardware_ == site.hardware)) {
    const double usual = usual_rail_;
    *this = ProfileBook();
    expect_rail(usual);
  }
  generation_ = generation;
  plan_ = profile.plan;
  step_ = profile.step;
  // What this job measured, or what jobs like it did, counts before what others did.
  const auto before_it = window_.coefficients();
  const double known_rail = before_it && !before_it->assumed_rail ? before_it->rail_ms_per_byte : usual_rail_;
  JobCoefficients found;
  try {
    found =
        calibrate(site.hardware, site.topology, profile, {}, {known_rail, before_it ? &*before_it : nullptr}, own_lists)
            .job;
  } catch (const Error& error) {
    trouble_ = error.what();
    return News::unusable;
  }
  // A user may run degrees that are no powers of two. The plan that runs must stay possible.
  for (const Stage& stage : profile.plan.stages) found.tp_degrees.push_back(stage.tp);
  std::sort(found.tp_degrees.begin(), found.tp_degrees.end());
  found.tp_degrees.erase(std::unique(found.tp_degrees.begin(), found.tp_degrees.end()), found.tp_degrees.end());
  if (!usable(found)) {
    trouble_ = "profile: its figures are out of range";
    return News::unusable;
  }
  hardware_ = site.hardware;
  if (other_plan) window_.start_generation();
  const bool before = window_.stable();
  steps_ = profile.steps;
  if (tells_statistics(profile)) {
    window_.add_told(std::move(found), calm(profile));
    if (calm(profile) || !ready_) spread_ = spread_of(profile);
  } else {
    window_.add(std::move(found), [&, placed = place_plan(site.topology, profile.plan)](const JobCoefficients& job) {
      return evaluate_plan(site.hardware, job, placed).exact_ms;
    });
  }
  if (before || !window_.stable()) return News::taken;
  ready_ = true;
  recalled_ = false;
  return News::ready;
}

void ProfileBook::recall(const Site& site, JobCoefficients known) {
  if (hardware_ && !(*hardware_ == site.hardware)) *this = ProfileBook();
  hardware_ = site.hardware;
  window_.recall(std::move(known));
  recalled_ = true;
}

void ProfileBook::restore(const Site& site, JobCoefficients own, int generation, std::int64_t step, double spread) {
  *this = ProfileBook();
  hardware_ = site.hardware;
  window_.restore(std::move(own));
  generation_ = generation;
  step_ = step;
  spread_ = spread;
  ready_ = true;
}

void ProfileBook::forget_recalled() {
  if (recalled_) *this = ProfileBook();
}

std::optional<JobCoefficients> ProfileBook::coefficients(const Site& site) const {
  return ready_ || recalled_ ? latest(site) : std::nullopt;
}

std::optional<JobCoefficients> ProfileBook::measured(const Site& site) const {
  if (!hardware_ || !(*hardware_ == site.hardware)) return std::nullopt;
  return window_.latest();
}

std::optional<JobCoefficients> ProfileBook::latest(const Site& site) const {
  if (!hardware_ || !(*hardware_ == site.hardware)) return std::nullopt;
  return window_.coefficients();
}

}  // namespace espalier
