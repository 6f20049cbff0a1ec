// The core of Gavel (OSDI '20): each job's share of the time on every GPU type, as a linear
// program, and the rounds that realize the shares.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace espalier::sim {

struct GavelJob {
  int gpus = 0;                    // the same on every type
  std::vector<double> throughput;  // by type; 0: the job does not fit there
};

// Returns shares[job][type], at most 1 in sum for each job. They maximize the sum of throughputs,
// each relative to the job's best. Throws Error when the solver fails.
std::vector<std::vector<double>> gavel_shares(std::span<const GavelJob> jobs, std::span<const int> capacity);

struct GavelRoundJob {
  int gpus = 0;
  std::vector<double> share;     // by type; negative: it cannot run there
  std::vector<double> received;  // seconds on each type so far
  int running_on = -1;           // its type in this round; -1: none
  bool fixed = false;            // stays on that type
};

// The type of every job in the next round; -1: none. Claims are served in this order: falling
// priority (share / fraction of the type's time received so far), share, jobs that run there
// already, earlier jobs. Every job that still fits is taken.
std::vector<int> gavel_round(std::span<const GavelRoundJob> jobs, std::span<const int> capacity);

}  // namespace espalier::sim
