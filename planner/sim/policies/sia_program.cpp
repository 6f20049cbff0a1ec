#include "planner/sim/policies/sia_program.hpp"

#include <algorithm>
#include <cmath>

#include "planner/sim/policies/linear_program.hpp"

namespace espalier::sim {

std::vector<int> sia_counts(int node_gpus, int nodes) {
  std::vector<int> counts;
  for (int gpus = 1; gpus < node_gpus; gpus *= 2) counts.push_back(gpus);
  for (int n = 1; n <= nodes; ++n) counts.push_back(n * node_gpus);
  return counts;
}

double sia_restart_factor(const SiaJob& job) {
  if (job.age < job.restart_seconds) return 1;
  return std::max(job.age - job.restarts * job.restart_seconds, 0.0) / (job.age + job.restart_seconds);
}

std::vector<double> sia_costs(const SiaJob& job, const SiaOptions& options) {
  const auto least = std::min_element(
      job.configurations.begin(), job.configurations.end(),
      [](const SiaConfiguration& a, const SiaConfiguration& b) { return a.throughput < b.throughput; });
  const double factor = job.current ? sia_restart_factor(job) : 1;
  std::vector<double> costs;
  for (std::size_t c = 0; c < job.configurations.size(); ++c) {
    double worth = job.configurations[c].throughput / least->throughput * least->gpus;
    if (job.current && *job.current != c) worth *= factor;
    costs.push_back(worth > 0 ? std::min(std::pow(worth, options.fairness), options.most) : options.most);
  }
  return costs;
}

std::vector<std::optional<std::size_t>> choose_configurations(std::span<const SiaJob> jobs,
                                                              std::span<const int> capacity,
                                                              const SiaOptions& options) {
  LinearProgram program;
  std::vector<int> left(capacity.begin(), capacity.end());
  for (const SiaJob& job : jobs)
    if (job.fixed && job.current) {
      const SiaConfiguration& stays = job.configurations[*job.current];
      left[static_cast<std::size_t>(stays.type)] -= stays.gpus;
    }
  std::vector<int> type_rows;
  for (const int gpus : left) type_rows.push_back(program.add_row(-LinearProgram::kNone, std::max(0, gpus)));

  struct Column {
    std::size_t job = 0, configuration = 0;
    int column = 0;
  };
  std::vector<Column> columns;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (jobs[j].fixed || jobs[j].configurations.empty()) continue;
    const auto costs = sia_costs(jobs[j], options);
    const int row = program.add_row(-LinearProgram::kNone, 1);
    // Skips a configuration if another one of the type has fewer GPUs and costs no more.
    for (std::size_t c = 0; c < costs.size(); ++c) {
      const SiaConfiguration& one = jobs[j].configurations[c];
      if (costs[c] >= options.waiting_penalty || one.gpus > left[static_cast<std::size_t>(one.type)]) continue;
      bool pointless = false;
      for (std::size_t other = 0; other < costs.size() && !pointless; ++other) {
        const SiaConfiguration& two = jobs[j].configurations[other];
        pointless = two.type == one.type && two.gpus < one.gpus && costs[other] <= costs[c];
      }
      if (pointless) continue;
      columns.push_back(
          {j, c,
           program.add_column(
               costs[c] - options.waiting_penalty, 0, 1,
               {{row, 1}, {type_rows[static_cast<std::size_t>(one.type)], static_cast<double>(one.gpus)}}, true)});
    }
  }
  program.solve_integer(options.gap, options.nodes);

  std::vector<std::optional<std::size_t>> chosen(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j)
    if (jobs[j].fixed) chosen[j] = jobs[j].current;
  for (const Column& column : columns)
    if (program.value(column.column) > 0.5) chosen[column.job] = column.configuration;
  return chosen;
}

}  // namespace espalier::sim
