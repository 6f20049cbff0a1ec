#include "planner/sim/policies/gavel_shares.hpp"

#include <algorithm>
#include <tuple>

#include "planner/sim/policies/linear_program.hpp"

namespace espalier::sim {
namespace {

constexpr double kNone = LinearProgram::kNone;

struct Shares {
  std::vector<std::vector<double>> value;
  double least = 0;  // the objective of fairness
};

// Throughputs relative to each job's best. `least_share`: below 0: it is what is maximized; else every job gets at
// least so much, and the sum is maximized.
Shares solve(std::span<const GavelJob> jobs, std::span<const int> capacity, double least_share) {
  LinearProgram program;
  std::vector<int> type_rows;
  for (const int gpus : capacity) type_rows.push_back(program.add_row(-kNone, gpus));
  const bool maximize_least = least_share < 0;
  std::vector<int> share_rows;
  std::vector<std::vector<int>> columns(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const double best = *std::max_element(jobs[j].throughput.begin(), jobs[j].throughput.end());
    const int time_row = program.add_row(-kNone, 1);
    // A job that fits nowhere, or that needs more GPUs than there are, must not hold the others' share at nothing.
    const bool possible = best > 0;
    const int share_row = program.add_row(possible ? (maximize_least ? 0 : least_share) : -kNone, kNone);
    if (possible) share_rows.push_back(share_row);
    columns[j].assign(capacity.size(), -1);
    for (std::size_t m = 0; m < capacity.size(); ++m) {
      if (jobs[j].throughput[m] <= 0) continue;
      const double relative = jobs[j].throughput[m] / best;
      columns[j][m] = program.add_column(
          maximize_least ? 0 : -relative, 0, 1,
          {{time_row, 1}, {type_rows[m], static_cast<double>(jobs[j].gpus)}, {share_row, relative * jobs[j].gpus}});
    }
  }
  int least = -1;
  if (maximize_least && !share_rows.empty()) {
    std::vector<LinearProgram::Entry> entries;
    for (const int row : share_rows) entries.push_back({row, -1});
    least = program.add_column(-1, 0, kNone, entries);
  }
  program.solve();
  Shares shares;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    auto& own = shares.value.emplace_back(capacity.size(), 0.0);
    for (std::size_t m = 0; m < capacity.size(); ++m)
      if (columns[j][m] >= 0) own[m] = std::clamp(program.value(columns[j][m]), 0.0, 1.0);
  }
  if (least >= 0) shares.least = program.value(least);
  return shares;
}

}  // namespace

std::vector<std::vector<double>> gavel_shares(std::span<const GavelJob> jobs, std::span<const int> capacity,
                                              GavelObjective objective) {
  double least = 0;
  // Rounding must not make the second program infeasible.
  if (objective == GavelObjective::fairness) least = std::max(0.0, solve(jobs, capacity, -1).least * (1 - 1e-9));
  return solve(jobs, capacity, least).value;
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
      // Gavel's stand-in for infinity where a job has had nothing yet.
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
