// The heart of Gavel (OSDI '20): which share of the time every job spends on every GPU type, as a linear program,
// and how rounds realize the shares.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace espalier::sim {

struct GavelJob {
  int gpus = 0;                    // on whatever type
  std::vector<double> throughput;  // by type; 0: it does not fit there
};

// shares[job][type], each job's at most 1 in sum: the sum of throughputs, each relative to the job's best, is as large
// as it can be. Throws Error when the solver fails.
std::vector<std::vector<double>> gavel_shares(std::span<const GavelJob> jobs, std::span<const int> capacity);

struct GavelRoundJob {
  int gpus = 0;
  std::vector<double> share;     // by type; negative: it cannot run there
  std::vector<double> received;  // seconds on each type so far
  int running_on = -1;           // type in this round
  bool fixed = false;            // stays there
};

// Type of every job in the next round, -1: none. By falling priority (share / fraction of the type's time received so
// far), then share, then jobs that run there already, then earlier ones; every job that still fits is taken.
std::vector<int> gavel_round(std::span<const GavelRoundJob> jobs, std::span<const int> capacity);

}  // namespace espalier::sim
