#include "planner/sim/bound.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "planner/core/model/least_time.hpp"

namespace espalier::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<int> gpus_by_type(const Site& site, const ClusterView& cluster) {
  std::vector<int> gpus(site.hardware.types.size(), 0);
  for (const NodeView& node : cluster.nodes) {
    const int known = site.topology.find(node.name);
    if (known < 0 || !node.usable) continue;
    for (const std::int16_t type : site.topology.gpu_types(known)) ++gpus[static_cast<std::size_t>(type)];
  }
  return gpus;
}

// Price of a GPU of each type; all GPUs together cost 1.
std::vector<double> normalized(std::vector<double> prices, const std::vector<int>& gpus) {
  double sum = 0;
  for (std::size_t t = 0; t < gpus.size(); ++t) sum += gpus[t] * prices[t];
  for (double& price : prices) price /= sum;
  return prices;
}

double one_machine(const std::vector<JobKind>& kinds, const std::vector<SimulatedJob>& jobs,
                   const std::vector<double>& release, const std::vector<double>& prices,
                   const std::vector<int>& gpus) {
  std::vector<double> work, by_kind;
  for (const JobKind& kind : kinds) {
    double least = kNever;
    for (std::size_t t = 0; t < gpus.size(); ++t)
      if (gpus[t] > 0) least = std::min(least, prices[t] * least_gpu_ms(kind, static_cast<int>(t)));
    by_kind.push_back(least / 1000);
  }
  for (const SimulatedJob& job : jobs) work.push_back(job.iterations * by_kind[job.kind]);
  return srpt_average(release, work);
}

}  // namespace

double least_gpu_ms(const JobKind& kind, int type) {
  if (kind.measured) {
    double least = kNever;
    for (const int gpus : kind.measured->counts(type))
      least = std::min(least, 1000 * gpus * kind.measured->fastest(type, gpus));
    return least;
  }
  return espalier::least_gpu_ms(kind.coefficients, type);
}

double least_step_ms(const JobKind& kind, const Hardware& hardware, const std::vector<int>& gpus) {
  if (kind.measured) {
    double least = kNever;
    for (std::size_t t = 0; t < gpus.size(); ++t)
      for (const int count : kind.measured->counts(static_cast<int>(t)))
        if (count <= gpus[t]) least = std::min(least, 1000 * kind.measured->fastest(static_cast<int>(t), count));
    return least;
  }
  return espalier::least_step_ms(kind.coefficients, hardware, gpus);
}

double srpt_average(const std::vector<double>& release, const std::vector<double>& work) {
  std::priority_queue<double, std::vector<double>, std::greater<>> left;
  double now = 0, sum = 0;
  // Serves the jobs that are there until `until`.
  const auto serve = [&](double until) {
    while (!left.empty() && now < until) {
      const double most = left.top();
      left.pop();
      if (now + most <= until) {
        now += most;
        sum += now;
      } else {
        left.push(most - (until - now));
        now = until;
      }
    }
    if (until < kNever) now = std::max(now, until);
  };
  for (std::size_t j = 0; j < release.size(); ++j) {
    serve(release[j]);
    left.push(work[j]);
    sum -= release[j];
  }
  serve(kNever);
  return release.empty() ? 0 : sum / static_cast<double>(release.size());
}

JctBound jct_bound(const Site& site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                   const std::vector<SimulatedJob>& jobs, const Delays& delays) {
  const std::vector<int> gpus = gpus_by_type(site, cluster);
  // Every job launches before its first step, and ends after its last one.
  const double fixed = delays.launch_seconds + delays.end_seconds;
  JctBound bound;
  std::vector<double> alone, release;
  for (const JobKind& kind : kinds) alone.push_back(least_step_ms(kind, site.hardware, gpus) / 1000);
  std::vector<double> needed(gpus.size(), 0.0);  // GPU time of all jobs, if they ran on this type alone
  for (const SimulatedJob& job : jobs) {
    release.push_back(job.submit + delays.launch_seconds);
    bound.alone += (job.iterations * alone[job.kind] + fixed) / static_cast<double>(jobs.size());
    for (std::size_t t = 0; t < gpus.size(); ++t) {
      const double ms = least_gpu_ms(kinds[job.kind], static_cast<int>(t));
      if (ms < kNever) needed[t] += job.iterations * ms;
    }
  }
  std::vector<std::vector<double>> prices{normalized(std::vector<double>(gpus.size(), 1.0), gpus)};
  std::vector<double> by_speed(gpus.size(), 0.0);
  for (std::size_t t = 0; t < gpus.size(); ++t)
    if (needed[t] > 0) by_speed[t] = 1 / needed[t];
  if (std::any_of(by_speed.begin(), by_speed.end(), [](double price) { return price > 0; }))
    prices.push_back(normalized(by_speed, gpus));
  for (const auto& one : prices)
    bound.one_machine = std::max(bound.one_machine, one_machine(kinds, jobs, release, one, gpus) + fixed);
  return bound;
}

}  // namespace espalier::sim
