#include "planner/sim/policies/gavel_shares.hpp"

#include <algorithm>
#include <tuple>

#include "planner/sim/policies/linear_program.hpp"

namespace espalier::sim {

std::vector<std::vector<double>> gavel_shares(std::span<const GavelJob> jobs, std::span<const int> capacity) {
  LinearProgram program;
  std::vector<int> type_rows;
  for (const int gpus : capacity) type_rows.push_back(program.add_row(-LinearProgram::kNone, gpus));
  std::vector<std::vector<int>> columns;  // 0: none
  for (const GavelJob& job : jobs) {
    const double best = *std::max_element(job.throughput.begin(), job.throughput.end());
    const int time_row = program.add_row(-LinearProgram::kNone, 1);
    auto& own = columns.emplace_back(capacity.size(), 0);
    for (std::size_t m = 0; m < capacity.size(); ++m)
      if (job.throughput[m] > 0)
        own[m] = program.add_column(-job.throughput[m] / best, 0, 1,
                                    {{time_row, 1}, {type_rows[m], static_cast<double>(job.gpus)}});
  }
  program.solve();
  std::vector<std::vector<double>> shares;
  for (const auto& own : columns) {
    auto& job = shares.emplace_back(capacity.size(), 0.0);
    for (std::size_t m = 0; m < capacity.size(); ++m)
      if (own[m] > 0) job[m] = std::clamp(program.value(own[m]), 0.0, 1.0);
  }
  return shares;
}

std::vector<int> gavel_round(std::span<const GavelRoundJob> jobs, std::span<const int> capacity) {
  std::vector<int> left(capacity.begin(), capacity.end());
  std::vector<int> type(jobs.size(), -1);
  for (std::size_t j = 0; j < jobs.size(); ++j)
    if (jobs[j].fixed && jobs[j].running_on >= 0) {
      type[j] = jobs[j].running_on;
      left[static_cast<std::size_t>(type[j])] -= jobs[j].gpus;
    }
  struct Claim {
    double priority = 0, share = 0;
    bool runs = false;
    std::size_t job = 0;
    int type = 0;
  };
  std::vector<Claim> claims;
  for (std::size_t m = 0; m < capacity.size(); ++m) {
    double all = 0;
    for (const GavelRoundJob& job : jobs) all += job.received[m];
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const double share = jobs[j].share[m];
      if (share < 0) continue;
      const double fraction = all > 0 ? jobs[j].received[m] / all : 0;
      // Gavel's substitute for infinity, for a job that has received nothing.
      const double priority = fraction > 0 ? share / fraction : share * 1e9;
      claims.push_back({priority, share, jobs[j].running_on == static_cast<int>(m), j, static_cast<int>(m)});
    }
  }
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
    return std::tuple(-a.priority, -a.share, !a.runs, a.job, a.type) <
           std::tuple(-b.priority, -b.share, !b.runs, b.job, b.type);
  });
  for (const Claim& claim : claims) {
    int& room = left[static_cast<std::size_t>(claim.type)];
    if (type[claim.job] >= 0 || jobs[claim.job].fixed || jobs[claim.job].gpus > room) continue;
    type[claim.job] = claim.type;
    room -= jobs[claim.job].gpus;
  }
  return type;
}

}  // namespace espalier::sim
