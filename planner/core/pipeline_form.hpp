// A plan's pipeline schedule as the planner chooses it: its kind, and into how many chunks each stage is cut. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier {

struct PipelineForm {
  std::int16_t kind = 0;    // index into pipeline::generators()
  std::int16_t chunks = 1;  // of each stage
  auto operator<=>(const PipelineForm&) const = default;

  bool plain() const { return kind == 0; }  // 1F1B
  std::string schedule() const;             // "zb-v"
  // The chunks go through the stages forward, then back. The first stage then has the embedding and the head.
  bool v_shaped() const;
  // The stage with the model's last chunk, of `stages`.
  int last_stage(int stages) const { return v_shaped() ? 0 : stages - 1; }
};

// No plan has more chunks in all, over its stages: lists of more are too long to be simulated on a daemon's loop.
inline constexpr int kMostListedChunks = 512;

// The schedule's name in a training configuration where the planner chooses schedule and chunks.
inline constexpr const char* kAutomaticSchedule = "auto";

// Throws Error when there is no schedule of this name, or it cannot have so many chunks.
PipelineForm pipeline_form(const std::string& schedule, int chunks);

// What plans may have: of "auto" all that the planner chooses from, 1F1B first; else the one form. Empty: 1F1B alone.
// An unknown name counts as 1F1B, and without a name chunks are interleaved, or zb-v as a V. The memory is static.
std::span<const PipelineForm> forms_of(const std::string& schedule, int chunks, bool v_shaped);

// The form of a plan. A plan with chunks and no name is interleaved, or zb-v if the chunks lie as a V. 1F1B where the
// chunks lie in no known way.
PipelineForm form_of(const Plan& plan);

// The chunks of stages with so many layers. Each stage's layers are cut as evenly as integers allow; the model's first
// and last chunk take the fewer ones, because of the embedding and the head. Where a stage has too few layers, all
// stages get fewer chunks, and a V becomes 1F1B: `form` says what became of it. Empty: one chunk per stage.
std::vector<Chunk> cut(std::span<const int> layers, PipelineForm& form);
// The form that cut() leaves.
PipelineForm fitted(PipelineForm form, std::span<const int> layers);

// Without times: the form with the shortest fill on equal stages, when F, I and W take the same time, of those that
// hold no more than 1F1B does.
PipelineForm best_on_equal_stages(std::span<const PipelineForm> forms, int stages, int micro_batches);

// The plan with the form's chunks and the schedule's name; see cut(). A plan that has chunks, or is invalid, is
// returned as it came.
Plan with_form(Plan plan, PipelineForm form);

}  // namespace espalier
