#include "planner/core/model/observed_memory.hpp"

#include <algorithm>

namespace espalier {
namespace {

struct Activations {
  double per_layer = 0;  // bytes per layer and sample on this GPU: k_activ-p / TP + k_activ-np
  int tp = 1;
  bool inner = false;  // the stage has no edge

  int worth() const { return inner ? 1 : 0; }
};

Activations observe(const JobCoefficients& job, const ObservedPeak& peak) {
  Activations result;
  result.tp = peak.tp;
  result.inner = !peak.at.first() && !peak.at.last();
  const MemoryParts parts = peak_memory(job, peak.layers, peak.share, peak.tp, peak.dp, peak.at);
  const double bytes = peak.bytes - parts.param_optim - parts.edge - parts.gradients;
  const double in_flight = held_at(job, peak.at);
  const double samples = static_cast<double>(peak.layers) * in_flight;
  // With recomputation memory holds the inputs of all layers, and all activations of one layer.
  result.per_layer = job.recompute ? bytes / peak.share - samples * job.activ_bytes : bytes / (peak.share * samples);
  result.per_layer = std::max(0.0, result.per_layer);
  return result;
}

}  // namespace

bool infer_activations(JobCoefficients& job, const std::vector<ObservedPeak>& peaks, double nonpartitioned,
                       std::vector<std::string>& remarks) {
  if (peaks.empty()) return false;
  std::vector<Activations> observed;
  for (const ObservedPeak& peak : peaks) observed.push_back(observe(job, peak));
  const Activations& best = *std::max_element(observed.begin(), observed.end(),
                                              [](const auto& a, const auto& b) { return a.worth() < b.worth(); });
  const Activations* other = nullptr;
  for (const Activations& one : observed)
    if (one.tp != best.tp && (!other || one.worth() > other->worth())) other = &one;

  job.memory_assumed = false;
  if (other) {
    const double partitioned = (best.per_layer - other->per_layer) / (1.0 / best.tp - 1.0 / other->tp);
    const double rest = best.per_layer - partitioned / best.tp;
    if (partitioned >= 0 && rest >= 0) {
      job.activ_p_bytes = partitioned;
      job.activ_np_bytes = rest;
      return true;
    }
    remarks.push_back("the memory peaks at two TP degrees contradict each other: one of them is used");
  }
  job.activ_np_bytes = nonpartitioned * job.activ_bytes;
  job.activ_p_bytes = (best.per_layer - job.activ_np_bytes) * best.tp;
  if (job.activ_p_bytes < 0) {
    job.activ_p_bytes = 0;
    job.activ_np_bytes = best.per_layer;
    remarks.push_back("activations are fewer than the family's part that TP does not divide: all belong to it");
  }
  return true;
}

}  // namespace espalier
