#include "planner/core/pipeline_form.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/form_figures.hpp"
#include "planner/core/pipeline/generate.hpp"

namespace espalier {
namespace {

constexpr int kMostChunks = 64;

int kind_of(const std::string& schedule) {
  const auto& all = pipeline::generators();
  for (std::size_t k = 0; k < all.size(); ++k)
    if (schedule == all[k].name) return static_cast<int>(k);
  return -1;
}

const PipelineForm& zb_v() {
  static const PipelineForm form = pipeline_form("zb-v", 2);
  return form;
}

// The stages that hold chunk 0, 1, ...
std::vector<Chunk> empty_chunks(int stages, PipelineForm form) {
  std::vector<Chunk> chunks;
  for (int leg = 0; leg < form.chunks; ++leg)
    for (int s = 0; s < stages; ++s) chunks.push_back({form.v_shaped() && leg % 2 == 1 ? stages - 1 - s : s, 0});
  return chunks;
}

// Each layer goes to the chunk of its stage that has the fewest; among equals not to the model's first or last. False
// when a chunk that must not be empty gets none.
bool deal_layers(std::span<const int> layers, std::vector<Chunk>& chunks) {
  const auto edge = [&](std::size_t c) { return c == 0 || c + 1 == chunks.size(); };
  // By stage: its chunks in the order in which they get a layer each, again and again.
  std::vector<std::vector<std::size_t>> own(layers.size());
  for (const bool edges : {false, true})
    for (std::size_t c = 0; c < chunks.size(); ++c)
      if (edge(c) == edges) own[static_cast<std::size_t>(chunks[c].stage)].push_back(c);
  for (std::size_t s = 0; s < own.size(); ++s) {
    const int count = static_cast<int>(own[s].size());
    for (int k = 0; k < count; ++k)
      chunks[own[s][static_cast<std::size_t>(k)]].layers = layers[s] / count + (k < layers[s] % count ? 1 : 0);
  }
  for (std::size_t c = 0; c < chunks.size(); ++c)
    if (chunks[c].layers == 0 && !edge(c)) return false;
  return true;
}

// Whether deal_layers() succeeds.
bool enough(std::span<const int> layers, PipelineForm form) {
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const bool first = s == 0, last = static_cast<int>(s) == form.last_stage(static_cast<int>(layers.size()));
    if (layers[s] < form.chunks - (first ? 1 : 0) - (last ? 1 : 0)) return false;
  }
  return true;
}

}  // namespace

std::string PipelineForm::schedule() const { return pipeline::generators()[static_cast<std::size_t>(kind)].name; }

// The schedules that need two chunks of each stage are the V-shaped ones.
bool PipelineForm::v_shaped() const {
  return pipeline::generators()[static_cast<std::size_t>(kind)].chunks_per_rank == 2;
}

PipelineForm pipeline_form(const std::string& schedule, int chunks) {
  const int needed = pipeline::generator(schedule).chunks_per_rank;
  if (chunks < 1 || chunks > kMostChunks || (needed > 0 && chunks != needed))
    throw Error("schedule \"" + schedule + "\": cannot have " + std::to_string(chunks) + " chunks on each stage" +
                (needed > 0 ? ", only " + std::to_string(needed) : "; use 1 to 64"));
  return {static_cast<std::int16_t>(kind_of(schedule)), static_cast<std::int16_t>(chunks)};
}

std::span<const PipelineForm> forms_of(const std::string& schedule, int chunks, bool v_shaped) {
  if (schedule == kAutomaticSchedule) {
    static const std::vector<PipelineForm> all{
        {},     pipeline_form("interleaved", 2), pipeline_form("interleaved", 4), pipeline_form("zb-h1", 1),
        zb_v(), pipeline_form("v-half", 2)};
    return all;
  }
  static const std::vector<PipelineForm> each = [] {
    std::vector<PipelineForm> forms;
    for (std::size_t kind = 0; kind < pipeline::generators().size(); ++kind)
      for (int count = 1; count <= kMostChunks; ++count)
        forms.push_back({static_cast<std::int16_t>(kind), static_cast<std::int16_t>(count)});
    return forms;
  }();
  const int kind = kind_of(!schedule.empty() || chunks < 2 ? schedule : v_shaped ? "zb-v" : "interleaved");
  if (kind <= 0) return {};
  const int needed = pipeline::generators()[static_cast<std::size_t>(kind)].chunks_per_rank;
  const int own = needed > 0 ? needed : std::clamp(chunks, 1, kMostChunks);
  return std::span(each).subspan(static_cast<std::size_t>(kind * kMostChunks + own - 1), 1);
}

PipelineForm best_on_equal_stages(std::span<const PipelineForm> forms, int stages, int micro_batches) {
  constexpr WorkShares kEqual{1.0 / 3, 1.0 / 3};
  PipelineForm best;
  for (const PipelineForm& form : forms) {
    const double held = micro_batches_held(form, stages, micro_batches, 0, false);
    if (held > micro_batches_held({}, stages, micro_batches, 0, false) + 1e-9) continue;
    if (fill_share(form, stages, micro_batches, kEqual) < fill_share(best, stages, micro_batches, kEqual) - 1e-9)
      best = form;
  }
  return best;
}

PipelineForm form_of(const Plan& plan) {
  if (plan.stages.empty()) return {};
  const int chunks = plan.chunks.empty() ? 1 : static_cast<int>(plan.chunks.size() / plan.stages.size());
  const int kind = kind_of(plan.schedule);
  PipelineForm form;
  if (kind >= 0) form = {static_cast<std::int16_t>(kind), static_cast<std::int16_t>(std::min(chunks, kMostChunks))};
  else if (chunks > 1)
    form = chunks == 2 && plan.chunks.back().stage == 0 ? zb_v()
                                                        : pipeline_form("interleaved", std::min(chunks, kMostChunks));
  const int needed = pipeline::generators()[static_cast<std::size_t>(form.kind)].chunks_per_rank;
  if (needed > 0 && needed != chunks) return {};
  const auto expected = empty_chunks(static_cast<int>(plan.stages.size()), form);
  const auto chunked = plan.model_chunks();
  const bool same = std::equal(chunked.begin(), chunked.end(), expected.begin(), expected.end(),
                               [](const Chunk& a, const Chunk& b) { return a.stage == b.stage; });
  return same ? form : PipelineForm{};
}

PipelineForm fitted(PipelineForm form, std::span<const int> layers) {
  const int fewest = form.v_shaped() ? 2 : 1;
  const auto too_many = [&] { return static_cast<int>(layers.size()) * form.chunks > kMostListedChunks; };
  while (form.chunks > 1 && form.chunks >= fewest && (too_many() || !enough(layers, form))) --form.chunks;
  // Half of a V is none.
  return form.chunks < fewest ? PipelineForm{} : form;
}

std::vector<Chunk> cut(std::span<const int> layers, PipelineForm& form) {
  form = fitted(form, layers);
  if (form.chunks < 2) return {};
  auto chunks = empty_chunks(static_cast<int>(layers.size()), form);
  ESPALIER_INVARIANT(deal_layers(layers, chunks));
  return chunks;
}

Plan with_form(Plan plan, PipelineForm form) {
  if (!plan.chunks.empty() || !validate(plan).empty()) return plan;
  std::vector<int> layers;
  for (const Stage& stage : plan.stages) layers.push_back(stage.layers);
  plan.chunks = cut(layers, form);
  plan.schedule = form.schedule();
  return plan;
}

}  // namespace espalier
