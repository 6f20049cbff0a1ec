// A plan as the solvers see it: counts of GPUs per node instead of GPU names. Shares and memory
// follow from the counts.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/model/stage_rates.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// GPUs of one type on one node.
struct Piece {
  std::int32_t node = 0;
  std::int16_t type = 0;
  std::int16_t gpus = 0;
  auto operator<=>(const Piece&) const = default;
};

// Pieces are sorted by (node, type), at most one per pair; every piece's count is a multiple of tp.
struct StageSketch {
  int tp = 1;
  int layers = 0;
  std::vector<Piece> pieces;
  bool operator==(const StageSketch&) const = default;
  int gpus() const;
};

struct PlanSketch {
  int micro_batches = 1;
  std::vector<StageSketch> stages;
  PipelineForm form = {};
  bool operator==(const PlanSketch&) const = default;
  int gpus() const;
};

// The deepest pipeline that the solvers consider. A model with more layers still gets at most this
// many stages.
inline constexpr int kMaxStages = 128;

// One job to plan. The referenced objects must outlive the solve and must not change.
struct Problem {
  const Hardware& hardware;
  const Topology& topology;
  const JobCoefficients& job;
  const PlanBounds& bounds;
  // Pipeline schedules and chunks that a plan may have (forms_of()). Empty: 1F1B alone.
  std::span<const PipelineForm> forms = {};
};

// The shape of the union of two sorted piece lists at TP degree `tp`. replicas == 0: it is no
// stage, because a count is no multiple of tp or there are more classes than StageShape holds.
StageShape stage_shape(const Problem& problem, std::span<const Piece> pieces, std::span<const Piece> more, int tp);

// Sorted union of two sorted piece lists, counts added.
std::vector<Piece> merge_pieces(std::span<const Piece> pieces, std::span<const Piece> more);
// The same into existing storage. `merged` must be neither of the inputs.
void merge_pieces(std::span<const Piece> pieces, std::span<const Piece> more, std::vector<Piece>& merged);

int count_gpus(std::span<const Piece> pieces);

// Whether `available` (sorted, one piece per pair) has all GPUs of the plan.
bool fits(const PlanSketch& plan, std::span<const Piece> available);

}  // namespace espalier
