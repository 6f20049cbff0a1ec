// Coefficients of a job's iteration time and peak memory (Suika Tab. 2).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace espalier {

class OwnLists;

constexpr double kMostOverlap = 64;  // complete

// Per GPU type. `assumed_*`: the value was not observed on this type. It is scaled or copied from
// another type, or a fall-back (A.4).
struct GpuCoefficients {
  double comp = 0;      // k_comp: ms per layer and sample, forward, one GPU
  double backward = 2;  // k_backward: backward / forward computation, without recomputation
  double optim = 0;     // k_optim: ms per layer, one GPU
  double overlap = 1;   // k_overlap in [1, 64]: 1 is no overlap, 64 is complete overlap
  bool assumed_comp = true, assumed_backward = true, assumed_optim = true, assumed_overlap = true;
  bool operator==(const GpuCoefficients&) const = default;
};

// Load of the first stage (embedding) or the last stage (final norm, LM head) in addition to its
// layers.
struct EdgeCoefficients {
  // Computation, in multiples of a layer's. The paper neglects it (0).
  double compute_layers = 0;
  double param_bytes = 0;        // gradients of all TP ranks together, as they are summed
  double param_optim_bytes = 0;  // parameters + optimizer state of all TP ranks, without gradients
  double activation_bytes = 0;   // the logits, per sample of ONE micro-batch, all TP ranks
  bool assumed_compute = true;   // compute_layers was not observed
  bool operator==(const EdgeCoefficients&) const = default;
};

// What a TP degree does to the computation beyond dividing it (degree_factor.hpp).
struct DegreeFactor {
  int tp = 1;
  double factor = 1;
  bool operator==(const DegreeFactor&) const = default;
};

// Bytes that memory holds for each byte of a summed integer gradient: 8 of the integer and 4 of the float.
constexpr double kHeldPerInteger = 1.5;

struct JobCoefficients {
  int layers = 0;
  int global_batch = 0;  // G: samples per iteration, fixed
  // TP degrees that the model allows: ascending powers of two that divide the heads, the key and
  // value heads and the feed-forward's width.
  std::vector<int> tp_degrees{1};
  // By degree, ascending. Empty: TP divides all of the computation. The paper knows no other case (A.2).
  std::vector<DegreeFactor> degree_factors = {};
  // Computation of a layer and micro-batch that depends on neither samples nor TP degree, as multiples of a sample's
  // k_comp: starts of kernels, and products too small for the device. The paper has none (0).
  double fixed_samples = 0;
  double activ_bytes = 0;  // k_activ: one activation at a layer boundary, per sample
  // Tensors of activ_bytes that go from stage to stage together. 2 with MTP modules: the embeddings go along.
  double boundary_tensors = 1;
  double param_bytes = 0;        // k_param: gradients per layer, as they are summed
  double param_optim_bytes = 0;  // k_param-optim: parameters + optimizer state per layer, without gradients
  // The parameters' part of param_optim_bytes; ZeRO-1 does not shard it.
  double weight_bytes = 0;
  double activ_p_bytes = 0;  // k_activ-p: activations per layer and sample that TP partitions
  // k_activ-np: activations per layer and sample that TP does not partition.
  double activ_np_bytes = 0;
  // Bytes that the forward pass of a layer moves for each FLOP of its matrix products (roofline.hpp). 0: unknown.
  double traffic_per_flop = 0;
  EdgeCoefficients first, last;  // the embedding's and the LM head's coefficients
  // Parameters + optimizer + gradients that the edges count twice when both are on one stage, of a program that then
  // keeps one table. espalier-train keeps two, each with its own sum.
  double tied_bytes = 0;
  // Share of the backward computation that runs after the gradient of the inputs has left for the
  // stage before: gradients of parameters. The paper has no such share (0): its stages wait for the
  // next stage's whole backward pass.
  double deferred = 0;
  bool recompute = false;  // full activation recomputation
  bool zero1 = false;      // distributed optimizer
  // Each unit's gradients are summed as soon as they are complete (unit_sums.hpp). k_overlap then says how much of what
  // could be hidden is. The paper knows programs without this order only.
  bool sums_by_unit = false;
  // Gradients are summed as integers of eight bytes (accuracy = bitwise), which memory holds beside the float32 ones.
  // ZeRO-1 does not scatter these sums: a norm must be the same for any number of parts.
  bool integer_sums = false;
  // activ_bytes is a layer's output size; no stage boundary was seen.
  bool boundary_assumed = false;
  bool memory_assumed = false;       // activ_p/activ_np are bounds or estimates, not observed
  std::vector<GpuCoefficients> gpu;  // by GPU type index of the Hardware
  // Of a program that divides its data only (data_parallel.hpp): ms of synchronization a step that the bytes of its
  // gradients do not explain, e.g. a framework's own work, with very many replicas. n replicas take (n - 1) / n of it,
  // as the part of a ring's traffic.
  double sync_beyond = 0;
  // Ms per byte on one rail to another node, under one leaf switch, as the sums of the job's gradients showed it where
  // Hardware says that it is faster. 0: as Hardware says.
  double rail_ms_per_byte = 0;
  bool assumed_rail = true;  // no sum between nodes was seen
  // The job's own order of the stages' work (own_lists.hpp), no coefficient: as_the_job_allows() adds it. Equal texts
  // are one object.
  std::shared_ptr<const OwnLists> own_lists = {};
  bool operator==(const JobCoefficients&) const = default;
};

// Limits on the planner's choice for a job, in addition to the model's own limits.
struct PlanBounds {
  int min_gpus = 1;
  int max_gpus = 1 << 20;
  std::vector<bool> types;      // allowed GPU types by index; empty: all
  int fixed_tp = 0;             // only this TP degree; 0: any (accuracy=bitwise fixes it)
  int fixed_micro_batches = 0;  // only this N_b; 0: any divisor of G (accuracy=bitwise fixes it)
  int fixed_pp = 0;             // only this number of stages; 0: any
  int fixed_dp = 0;             // every stage has this DP degree; 0: any (a runtime's limit)
  bool uniform_dp = false;      // all stages have the same DP degree (a runtime's limit)
  bool equal_shares = false;    // DP must divide the micro-batch (a runtime's limit)
  // Topology index of the node that the first stage must use, because rank 0 stays there; -1: any.
  int lead_node = -1;
  bool operator==(const PlanBounds&) const = default;

  bool allows_type(int type) const {
    return types.empty() ||
           (type >= 0 && static_cast<std::size_t>(type) < types.size() && types[static_cast<std::size_t>(type)]);
  }
};

}  // namespace espalier
