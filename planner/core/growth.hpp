// What one job could grow into: prefixes of the nearest idle GPUs, each with its best plan, its prediction and its
// fate.
#pragma once

#include <string>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/decision.hpp"

namespace espalier {

// GPUs of one node that a candidate takes.
struct Taken {
  std::string node;
  std::vector<int> gpus;
};

struct Growth {
  std::vector<Candidate> candidates;
  std::vector<std::vector<Taken>> prefixes;  // what each candidate takes
  std::size_t best = 0;                      // index of the fastest; beyond the end: none is worth it

  bool worth_it() const { return best < candidates.size(); }
  const Candidate& chosen() const { return candidates[best]; }
};

// `job` has a plan, a model and a measured step time. The supplies' nodes belong to `cluster`.
Growth explore_growth(const ElasticJob& job, const ClusterView& cluster, const std::vector<Supply>& supplies);

// The candidates for the record, each loser with its reason; of a wide search the fastest ones. `growth` is worth it.
std::vector<Candidate> explained_candidates(Growth growth, const ElasticJob& job);

// The extension for `gpus` GPUs of a node: CPUs and memory in proportion, never all of the node's rest.
ExtensionRequest request_for(const Supply& supply, int gpus);

int held_gpus(const ElasticJob& job);
std::vector<GpuId> gpus_of(const std::vector<Holding>& holdings);
std::string seconds_text(double seconds);  // "0.1234 s"

}  // namespace espalier
