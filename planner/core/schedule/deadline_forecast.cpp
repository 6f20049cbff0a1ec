#include "planner/core/schedule/deadline_forecast.hpp"

#include <algorithm>
#include <memory>

#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/least_time.hpp"
#include "planner/core/schedule/duration_text.hpp"
#include "planner/core/schedule/growing.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/core/schedule/virtual_job.hpp"

namespace espalier {
namespace {

// Each number of GPUs takes a search, and espalierd plans on its loop.
constexpr int kMostSearches = 5;

// GPUs that the job may get, without those that it holds.
std::vector<NodeGpus> others(const Site& site, const std::vector<NodeGpus>& held, std::span<const std::string> closed) {
  std::vector<NodeGpus> result;
  for (int node = 0; node < site.topology.nodes(); ++node) {
    if (std::binary_search(closed.begin(), closed.end(), site.topology.name(node))) continue;
    const auto own = std::find_if(held.begin(), held.end(), [&](const NodeGpus& one) { return one.node == node; });
    NodeGpus rest{node, {}};
    for (std::size_t gpu = 0; gpu < site.topology.gpu_types(node).size(); ++gpu)
      if (const auto index = static_cast<std::int16_t>(gpu);
          site.topology.has(node, index) &&
          (own == held.end() || std::find(own->gpus.begin(), own->gpus.end(), index) == own->gpus.end()))
        rest.gpus.push_back(index);
    if (!rest.gpus.empty()) result.push_back(std::move(rest));
  }
  return result;
}

std::vector<NodeGpus> with_first(std::vector<NodeGpus> held, const std::vector<GpuAt>& order, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = std::lower_bound(held.begin(), held.end(), order[i].node,
                                     [](const NodeGpus& one, std::int32_t node) { return one.node < node; });
    (at != held.end() && at->node == order[i].node ? at : held.insert(at, NodeGpus{order[i].node, {}}))
        ->gpus.push_back(order[i].gpu);
  }
  return held;
}

// Milliseconds of a step at least. Whether the job's limits allow a plan that comes near does not count.
double least_ms(const Site& site, const JobCoefficients& coefficients, const std::vector<NodeGpus>& held,
                const std::vector<NodeGpus>& rest, int most) {
  std::vector<int> gpus(site.hardware.types.size(), 0);
  for (const auto* part : {&held, &rest})
    for (const NodeGpus& one : *part)
      for (const std::int16_t gpu : one.gpus)
        ++gpus[static_cast<std::size_t>(site.topology.gpu_types(one.node)[static_cast<std::size_t>(gpu)])];
  return least_step_ms(fastest_of_assumed(coefficients), site.hardware, std::move(gpus), most);
}

}  // namespace

std::optional<DeadlineForecast> deadline_forecast(const ElasticJob& job, const Site& all,
                                                  const JobCoefficients& coefficients, bool measured, double now,
                                                  double start_seconds, std::span<const std::string> closed,
                                                  int most_ever) {
  if (job.total_steps <= 0 || !job.plan || job.step_seconds <= 0) return std::nullopt;
  const auto end_at = [&](double step_seconds) {
    return now + start_seconds + static_cast<double>(job.total_steps) * step_seconds;
  };
  DeadlineForecast forecast;
  forecast.measured = measured;
  forecast.own_gpus = forecast.best_gpus = job.plan->gpu_count();
  forecast.own_end = forecast.best_end = forecast.least_end = end_at(job.step_seconds);
  const std::shared_ptr<const Site> given(std::shared_ptr<void>(), &all);
  const auto own_site = site_for(given, job);
  const Site& site = *own_site;
  const auto held = held_gpus(held_by(job, site));
  int own = 0;
  for (const NodeGpus& one : held) own += static_cast<int>(one.gpus.size());
  // Whatever nodes and limits stand in the way now: they may be gone in an hour.
  const int most = std::max({own, job.max_gpus, most_ever});
  forecast.least_end =
      std::min(forecast.own_end, end_at(least_ms(site, coefficients, held, others(site, held, {}), most) / 1000));
  if (job.max_gpus <= own || job.held) return forecast;
  const std::vector<NodeGpus> rest = others(site, held, closed);
  const auto virtual_job = VirtualJob::make(job, given, coefficients);
  if (!virtual_job) return forecast;  // its own GPUs are all that can be told of
  // As a start searches that takes idle GPUs at once: any number of them, stages and TP degrees that the job's limits
  // allow.
  const auto order = affinity_order(site.hardware, site.topology, held, rest, job.max_gpus - own);
  const int searches = std::min(kMostSearches, static_cast<int>(order.size()));
  for (int i = 1; i <= searches; ++i) {
    const std::size_t count = order.size() * static_cast<std::size_t>(i) / static_cast<std::size_t>(searches);
    const auto pieces = pieces_of(with_first(held, order, count), site);
    const auto found =
        best_plan(virtual_job->evaluator(), pieces, std::span(&virtual_job->present().sketch, 1), kPolishEffort);
    if (!found) continue;
    const double end = end_at(virtual_job->evaluator().exact_sketch(found->sketch) / 1000);
    if (end >= forecast.best_end) continue;
    forecast.best_end = end;
    forecast.best_gpus = found->sketch.gpus();
  }
  forecast.least_end = std::min(forecast.least_end, forecast.best_end);
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
