// What a job's own performance depends on (Suika Tab. 2): the coefficients of its iteration time and peak memory.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier {

// Per GPU type. `assumed_*`: not observed on this type, but scaled or copied from another one, or a fall-back (A.4).
struct GpuCoefficients {
  double comp = 0;      // k_comp: ms per layer and sample, forward, one GPU
  double backward = 2;  // k_backward: backward / forward computation, without recomputation
  double optim = 0;     // k_optim: ms per layer, one GPU
  double overlap = 1;   // k_overlap in [1, 64]: 1 none, 64 complete
  bool assumed_comp = true, assumed_backward = true, assumed_optim = true, assumed_overlap = true;
  bool operator==(const GpuCoefficients&) const = default;
};

// What the first stage (embedding) or the last stage (final norm, LM head) carries beside its layers.
struct EdgeCoefficients {
  double compute_layers = 0;     // computation, in layers; the paper neglects it (0)
  double param_bytes = 0;        // gradients, whole (all TP ranks)
  double param_optim_bytes = 0;  // parameters + optimizer state, without gradients, whole
  double activation_bytes = 0;   // per sample of ONE micro-batch, whole: the logits
  bool assumed_compute = true;   // compute_layers was not observed
  bool operator==(const EdgeCoefficients&) const = default;
};

struct JobCoefficients {
  int layers = 0;
  int global_batch = 0;            // G: samples per iteration, fixed
  std::vector<int> tp_degrees{1};  // TP degrees the model allows, ascending powers of two (they divide the heads)
  double activ_bytes = 0;          // k_activ: one activation at a layer boundary, per sample
  double param_bytes = 0;          // k_param: gradients per layer
  double param_optim_bytes = 0;    // k_param-optim: parameters + optimizer state per layer, without gradients
  double weight_bytes = 0;         // of these the parameters alone; what ZeRO-1 does not shard
  double activ_p_bytes = 0;        // k_activ-p: activations per layer and sample that TP partitions
  double activ_np_bytes = 0;       // k_activ-np: those that it does not
  EdgeCoefficients first, last;    // the embedding's and the LM head's
  double tied_bytes = 0;           // parameters + optimizer + gradients counted twice when both edges are on one stage
  // Of the backward computation, the gradients of parameters that are made when the gradient of the inputs has left for
  // the stage before. The paper has none (0): there a stage waits for all of the next one's backward pass.
  double deferred = 0;
  bool recompute = false;            // full activation recomputation
  bool zero1 = false;                // distributed optimizer
  bool boundary_assumed = false;     // activ_bytes is a layer's output shape: no stage boundary was seen
  bool memory_assumed = false;       // activ_p/activ_np are bounds or estimates, not observed
  std::vector<GpuCoefficients> gpu;  // by GPU type index of the Hardware
  bool operator==(const JobCoefficients&) const = default;
};

// What the planner may choose for a job, beside what the model allows.
struct PlanBounds {
  int min_gpus = 1;
  int max_gpus = 1 << 20;
  std::vector<bool> types;      // allowed GPU types by index; empty: all
  int fixed_tp = 0;             // only this TP degree; 0: any (accuracy=bitwise fixes it)
  int fixed_micro_batches = 0;  // only this N_b; 0: any divisor of G (accuracy=bitwise fixes it)
  int fixed_pp = 0;             // only so many stages; 0: any
  int fixed_dp = 0;             // every stage has this DP degree; 0: any (a runtime's limit)
  bool uniform_dp = false;      // all stages have the same DP degree (a runtime's limit)
  bool equal_shares = false;    // DP must divide the micro-batch (a runtime's limit)
  int lead_node = -1;           // topology index of the node that the first stage must use (rank 0 stays); -1: any
  bool operator==(const PlanBounds&) const = default;

  bool allows_type(int type) const {
    return types.empty() ||
           (type >= 0 && static_cast<std::size_t>(type) < types.size() && types[static_cast<std::size_t>(type)]);
  }
};

}  // namespace espalier
