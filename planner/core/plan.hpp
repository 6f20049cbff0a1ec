// The parallelization plan: a PP-DP-TP tree (Suika §2.2, App. A.1). Plain data. All parts of
// Espalier exchange plans in this form.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace espalier {

// A GPU, named by its node and by its index in Slurm's GRES of that node. The index is never a CUDA
// ordinal: CUDA ordinals differ from job to job.
struct GpuId {
  std::string node;
  int index = 0;
  auto operator<=>(const GpuId&) const = default;
};

// One data-parallel replica of a stage: a tensor-parallel group on one node.
struct Replica {
  int share = 0;            // samples of each micro-batch that this replica processes (b_ij >= 1)
  std::vector<GpuId> gpus;  // size == the stage's TP degree
  bool operator==(const Replica&) const = default;
};

struct Stage {
  int layers = 0;                 // transformer layers of this stage (l_i >= 1), in all its chunks
  int tp = 1;                     // GPUs per replica
  std::vector<Replica> replicas;  // DP groups; their shares sum to the micro-batch
  bool operator==(const Stage&) const = default;
};

// A run of consecutive layers, held by one stage (FlexTrain §4.2-4.3). The model's first chunk also holds the
// embedding, its last chunk also the final norm and the LM head. Only these two may be without a layer.
struct Chunk {
  int stage = 0;   // that holds it
  int layers = 0;  // transformer layers
  bool operator==(const Chunk&) const = default;
};

struct Plan {
  int global_batch = 0;   // samples per iteration; fixed by the user, never changes
  int micro_batches = 1;  // N_b; divides global_batch
  std::vector<Stage> stages;
  // In the order of the model; every stage holds one or more. Empty: one chunk per stage, in the order of the stages.
  std::vector<Chunk> chunks = {};
  // Pipeline schedule by name ("1f1b", "interleaved", ...). Empty: the one of the training configuration.
  std::string schedule = {};

  bool operator==(const Plan&) const = default;
  int micro_batch() const { return micro_batches > 0 ? global_batch / micro_batches : 0; }
  int total_layers() const;
  int gpu_count() const;
  // All GPUs in rank order: stage by stage, replica by replica. Rank r of a generation runs on ranks()[r].
  std::vector<GpuId> ranks() const;
  // `chunks`, or the chunks that an empty list means.
  std::vector<Chunk> model_chunks() const;
};

// Position of a rank in the tree.
struct RankPlace {
  int stage = 0, replica = 0, tp_rank = 0;
  bool operator==(const RankPlace&) const = default;
};

// One entry per rank, in the order of Plan::ranks().
std::vector<RankPlace> rank_places(const Plan& plan);

// Which nodes the GPUs of one TP group may have. `any`: where node names say whose memory is in reach of whom; they may
// then differ within a group.
enum class TpGroups { one_node, any };

// One sentence per broken rule; empty when the plan is valid. With `model_layers` > 0 the plan must
// have that many layers.
std::vector<std::string> validate(const Plan& plan, int model_layers = 0, TpGroups groups = TpGroups::one_node);

// Whether the state of a training on `from` already lies where `to` needs it: the same GPUs in the same order, with the
// same layers, chunks and TP degrees. The micro-batches, the replicas' shares of them and the schedule may differ.
bool keeps_places(const Plan& from, const Plan& to);

std::size_t hash_value(const Plan& plan);

// One line for people: "pp2 dp1 tp1 | 4+4 layers | n1/0 n1/1". With chunks, each as layers@stage, and a schedule:
// "pp2 dp1 tp1 interleaved | 2@0+2@1+2@0+2@1 layers | n1/0 n1/1".
std::string describe(const Plan& plan);

// The plan with `pp` stages of `dp` replicas of `tp` GPUs each. Layers and shares are as even as
// integers allow; remainders go to the first stages and replicas. GPUs are taken in the given
// order. Throws Error when the plan does not fit or a replica would span nodes.
Plan uniform_plan(int pp, int dp, int layers, int global_batch, int micro_batches, const std::vector<GpuId>& gpus,
                  int tp = 1);

}  // namespace espalier

template <>
struct std::hash<espalier::Plan> {
  std::size_t operator()(const espalier::Plan& plan) const noexcept { return espalier::hash_value(plan); }
};
