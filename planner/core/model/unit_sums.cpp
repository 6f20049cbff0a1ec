#include "planner/core/model/unit_sums.hpp"

#include <algorithm>

namespace espalier {

double exposed_unit_sums(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last,
                         double slower) {
  const double rate = rates.gradient_ms_per_byte * slower;
  const auto sum_of = [&](double bytes) { return sync_parts(job, bytes * rate).sum; };
  const bool whole = first || job.recompute;
  const double in_edge = whole ? rates.comp_bwd : job.deferred * rates.comp_bwd;  // of a layer's computation
  const double in_layer = whole ? rates.bwd : in_edge;
  double now = 0, link = 0, bytes = 0;
  if (last) {
    now = job.last.compute_layers * in_edge;
    link = now + sum_of(job.last.param_bytes);
    bytes += job.last.param_bytes;
  }
  // Layers are alike: either the link is busy from the first one on, or it waits for the last one.
  const double sum = sum_of(job.param_bytes);
  link = std::max({link + layers * sum, now + in_layer + layers * sum, now + layers * in_layer + sum});
  now += layers * in_layer;
  bytes += layers * job.param_bytes;
  if (first) {
    now += job.first.compute_layers * in_edge;
    link = std::max(link, now) + sum_of(job.first.param_bytes);
    bytes += job.first.param_bytes;
  }
  const SyncParts all = sync_parts(job, bytes * rate);
  const double exposed = link - now;
  return exposed + std::max(0.0, all.sum - exposed) / std::max(1.0, rates.overlap) + all.gather;
}

}  // namespace espalier
