#include "planner/core/model/memory.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/model/form_figures.hpp"
#include "planner/core/model/own_lists.hpp"

namespace espalier {
namespace {

// Bytes of one GPU as functions of the stage's layers: value = fixed + slope * layers.
struct Affine {
  double fixed = 0, slope = 0;
  double at(int layers) const { return fixed + slope * layers; }
};
struct Footprint {
  Affine param_optim, activations, gradients;
  double edge = 0;
};

double held_gradients(const JobCoefficients& job, double summed) {
  return job.integer_sums ? kHeldPerInteger * summed : summed;
}

double sharded(const JobCoefficients& job, double param_optim, int dp) {
  if (!job.zero1 || job.param_optim_bytes <= 0) return param_optim;
  const double weights = param_optim * job.weight_bytes / job.param_optim_bytes;
  return weights + (param_optim - weights) / dp;
}

double edge_bytes(const JobCoefficients& job, const EdgeCoefficients& edge, int share, int tp, int dp) {
  return (sharded(job, edge.param_optim_bytes, dp) + held_gradients(job, edge.param_bytes) +
          edge.activation_bytes * share) /
         tp;
}

Footprint footprint(const JobCoefficients& job, int share, int tp, int dp, const StagePosition& at) {
  Footprint result;
  const double in_flight = held_at(job, at);
  const double layer = job.activ_p_bytes / tp + job.activ_np_bytes;
  result.param_optim.slope = sharded(job, job.param_optim_bytes, dp) / tp;
  result.gradients.slope = held_gradients(job, job.param_bytes) / tp;
  if (job.recompute) {
    // Memory holds the inputs of all layers and all activations of the layer that is being
    // recomputed.
    result.activations = {share * layer, share * in_flight * job.activ_bytes};
  } else {
    result.activations.slope = share * in_flight * layer;
  }
  if (at.first()) result.edge += edge_bytes(job, job.first, share, tp, dp);
  if (at.last()) result.edge += edge_bytes(job, job.last, share, tp, dp);
  if (at.first() && at.last()) result.edge -= job.tied_bytes / tp;
  return result;
}

int most_layers(double room, const Affine& need) {
  if (need.fixed > room) return 0;
  if (need.slope <= 0) return 1 << 20;
  return static_cast<int>(std::min((room - need.fixed) / need.slope * (1 + 1e-12), 1e6));
}

}  // namespace

double held_at(const JobCoefficients& job, const StagePosition& at) {
  if (at.held > 0) return at.held;
  if (const OwnLists* own = lists_that_run(job, at.form, at.stages, at.micro_batches))
    return own->held(at.index, job.recompute);
  if (at.form.plain()) return std::min(at.stages - at.index, at.micro_batches);
  return micro_batches_held(at.form, at.stages, at.micro_batches, at.index, job.recompute);
}

MemoryParts peak_memory(const JobCoefficients& job, int layers, int share, int tp, int dp, const StagePosition& at) {
  const Footprint bytes = footprint(job, share, tp, dp, at);
  MemoryParts parts{bytes.param_optim.at(layers), bytes.activations.at(layers), bytes.gradients.at(layers), bytes.edge,
                    0};
  parts.peak = parts.param_optim + parts.edge + parts.activations + parts.gradients;
  return parts;
}

int layer_cap(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape, const Shares& shares,
              const StagePosition& at) {
  int cap = job.layers;
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape.class_count); ++c) {
    const Footprint bytes = footprint(job, shares.most[c], shape.tp, shape.replicas, at);
    const double capacity = hardware.types[static_cast<std::size_t>(shape.classes[c].type)].memory_bytes;
    const double room = hardware.memory_share * capacity - bytes.edge;
    cap = std::min(cap, most_layers(room, {bytes.activations.fixed,
                                           bytes.param_optim.slope + bytes.activations.slope + bytes.gradients.slope}));
  }
  return std::max(cap, 0);
}

}  // namespace espalier
