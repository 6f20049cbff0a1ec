#include "planner/core/schedule/deadline_forecast.hpp"

#include "planner/core/error.hpp"
#include "planner/core/schedule/duration_text.hpp"
#include "planner/core/schedule/flextrain/predicted_scale.hpp"

namespace espalier {
namespace {

// Each number of GPUs takes a search, and espalierd plans on its loop.
constexpr int kMostEntries = 6;

}  // namespace

std::optional<DeadlineForecast> deadline_forecast(const ElasticJob& job, const Site& site,
                                                  const JobCoefficients& coefficients, bool measured, double now,
                                                  double start_seconds) {
  if (job.total_steps <= 0 || !job.plan || job.step_seconds <= 0) return std::nullopt;
  const auto steps = static_cast<double>(job.total_steps);
  DeadlineForecast forecast;
  forecast.measured = measured;
  forecast.own_gpus = forecast.best_gpus = job.plan->gpu_count();
  forecast.own_end = forecast.best_end = now + start_seconds + steps * job.step_seconds;
  if (job.max_gpus <= forecast.own_gpus || job.held) return forecast;
  ScaleOptions options;
  options.most_entries = kMostEntries;
  try {
    for (const ScaleEntry& entry : predicted_scale(job, site, coefficients, options)) {
      const double end = now + start_seconds + steps * entry.step_seconds;
      if (entry.plan.empty() || entry.step_seconds <= 0 || end >= forecast.best_end) continue;
      forecast.best_end = end;
      forecast.best_gpus = entry.gpus;
    }
  } catch (const Error&) {  // its own GPUs are all that can be told of
  }
  return forecast;
}

std::string describe(const DeadlineForecast& forecast, double deadline, double now) {
  std::string text =
      deadline > now ? duration_text(deadline - now) + " to its deadline: " : std::string("its deadline is over: ");
  text += duration_text(forecast.own_end - now) + " on its " + std::to_string(forecast.own_gpus) + " GPUs";
  if (forecast.best_gpus != forecast.own_gpus)
    text += ", " + duration_text(forecast.best_end - now) + " on " + std::to_string(forecast.best_gpus);
  return text + (forecast.measured ? ", by what a job like it measured" : ", by the GPUs' data sheets");
}

}  // namespace espalier
