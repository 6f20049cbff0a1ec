// The core of Sia (SOSP '23): an integer program that chooses every job's configuration for the
// next round.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace espalier::sim {

struct SiaConfiguration {
  int type = 0;
  int gpus = 0;
  double throughput = 0;  // throughput there, any unit; > 0: infeasible ones are left out
};

struct SiaJob {
  std::vector<SiaConfiguration> configurations;
  std::optional<std::size_t> current;  // the configuration that it runs on
  bool fixed = false;                  // stays on `current`, because it is being restarted
  double age = 0;                      // seconds since it was submitted
  int restarts = 0;
  double restart_seconds = 0;  // cost of one restart
};

struct SiaOptions {
  double fairness = -0.5;        // p; negative
  double waiting_penalty = 1.1;  // lambda: cost of a job that gets nothing
  double most = 3000;            // upper bound of an entry of the matrix
  // Relative distance to the optimum at which the solver may stop (as in the released code).
  double gap = 1e-4;
  // Most nodes of branch and bound. Then the best solution found counts.
  long nodes = 2000;
};

// GPU counts on nodes of one type: powers of two inside a node, then whole nodes.
std::vector<int> sia_counts(int node_gpus, int nodes);

// r: the share of a configuration's worth that a restart leaves. 1 while the job is younger than a
// restart takes.
double sia_restart_factor(const SiaJob& job);

// A = min(G^p, most), one per configuration. G is the throughput over the least throughput, times
// the GPUs of the configuration with the least. (A job that needs several GPUs at least is then not
// worth less to serve.) G is also multiplied by r, except for the current configuration.
std::vector<double> sia_costs(const SiaJob& job, const SiaOptions& options);

// The chosen configuration of each job; nullopt: it waits. Minimizes the sum of A over the chosen
// configurations plus waiting_penalty per waiting job, with at most `capacity[type]` GPUs.
// Deterministic. Throws Error when the solver fails.
std::vector<std::optional<std::size_t>> choose_configurations(std::span<const SiaJob> jobs,
                                                              std::span<const int> capacity, const SiaOptions& options);

}  // namespace espalier::sim
