// The heart of Sia (SOSP '23): which configuration every job runs on in the next round, as an integer program.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace espalier::sim {

struct SiaConfiguration {
  int type = 0;
  int gpus = 0;
  double throughput = 0;  // of the job there, any unit; > 0: what is infeasible is no configuration
};

struct SiaJob {
  std::vector<SiaConfiguration> configurations;
  std::optional<std::size_t> current;  // that it runs on
  bool fixed = false;                  // stays on `current`: it is being restarted
  double age = 0;                      // seconds since it was submitted
  int restarts = 0;
  double restart_seconds = 0;  // what one costs
};

struct SiaOptions {
  double fairness = -0.5;        // p; negative
  double waiting_penalty = 1.1;  // lambda: of a job that gets nothing
  double most = 3000;            // bound of an entry of the matrix
  double gap = 1e-4;             // the solver may stop this near to the optimum, relative (the released code's)
  long nodes = 2000;             // of branch and bound at most; the best one found then counts
};

// GPU counts on nodes of one type: powers of two inside a node, then whole nodes.
std::vector<int> sia_counts(int node_gpus, int nodes);

// r: what a restart leaves of a configuration's worth; 1 while the job is younger than a restart takes.
double sia_restart_factor(const SiaJob& job);

// A = min(G^p, most), one per configuration. G: throughputs over the least, times the GPUs of that one (so that a job
// which needs several GPUs at least is not worth less to serve), times r where it is not the current one.
std::vector<double> sia_costs(const SiaJob& job, const SiaOptions& options);

// Per job the chosen configuration; nullopt: it waits. Minimizes the sum of A over the chosen ones plus
// waiting_penalty per job that waits, at most `capacity[type]` GPUs. Deterministic. Throws Error when the solver fails.
std::vector<std::optional<std::size_t>> choose_configurations(std::span<const SiaJob> jobs,
                                                              std::span<const int> capacity, const SiaOptions& options);

}  // namespace espalier::sim
