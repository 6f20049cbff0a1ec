#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "torchrt/schedule/must_fit.hpp"

namespace espalier::torchrt {

namespace {

std::string listed(const std::vector<int>& stages) {
  std::string text;
  for (const int stage : stages) text += (text.empty() ? "" : " ") + std::to_string(stage);
  return text;
}

std::vector<int> placement_of(const Layout& layout) {
  std::vector<int> stages;
  for (const ChunkLayout& chunk : layout.chunks) stages.push_back(chunk.stage);
  return stages;
}

// A plan with too few layers for chunks has one chunk per stage.
std::string name_for(const Layout& layout, const ScheduleOptions& options) {
  const bool whole = !layout.chunked() && layout.stages.size() > 1;
  return whole && pipeline::generator(options.name).chunks_per_rank > 1 ? "1f1b" : options.name;
}

}  // namespace

bool fits(const pipeline::Schedule& given, const Layout& layout) {
  return given.micro_batches == layout.micro_batches && given.rank_of_chunk == placement_of(layout) &&
         given.actions.size() == layout.stages.size();
}

void must_fit(const ScheduleOptions& options, const Layout& layout) {
  if (!options.given || fits(*options.given, layout)) return;
  throw Error("--schedule: the file is for " + std::to_string(options.given->micro_batches) +
              " micro-batches and chunks on the stages " + listed(options.given->rank_of_chunk) + ", the plan has " +
              std::to_string(layout.micro_batches) + " and " + listed(placement_of(layout)) +
              "; change the number of ranks, [parallel] or the file");
}

std::string told_of_file(const ScheduleOptions& options, const Layout& layout) {
  const pipeline::Schedule& given = *options.given;
  if (fits(given, layout)) return "--schedule: the file's lists run";
  const auto shape = [](int micro_batches, const std::vector<int>& stages) {
    return std::to_string(micro_batches) + " micro-batches and chunks on the stages " + listed(stages);
  };
  return "--schedule: the file's lists are for " + shape(given.micro_batches, given.rank_of_chunk) +
         ", this plan has " + shape(layout.micro_batches, placement_of(layout)) + ": it runs " +
         name_for(layout, options) + " until a plan has those";
}

pipeline::Schedule order_of_work(const Layout& layout, const ScheduleOptions& options) {
  const int stages = static_cast<int>(layout.stages.size());
  const std::vector<int> placement = placement_of(layout);
  if (options.given && fits(*options.given, layout)) return *options.given;
  const std::string name = name_for(layout, options);
  pipeline::Schedule made;
  if (layout.chunks.size() % layout.stages.size() == 0)
    made = pipeline::generate(
        name, {stages, layout.micro_batches, static_cast<int>(layout.chunks.size() / layout.stages.size())});
  if (made.rank_of_chunk != placement)
    throw Error("schedule: \"" + name + "\" wants its chunks on the stages " + listed(made.rank_of_chunk) +
                ", the plan has them on " + listed(placement) + "; change [parallel] plan or training.schedule");
  return made;
}

pipeline::Schedule forwards_then_backwards(const Layout& layout) {
  pipeline::Schedule made;
  made.micro_batches = layout.micro_batches;
  made.actions.resize(layout.stages.size());
  const auto add = [&](pipeline::Compute kind, std::size_t chunk) {
    for (int m = 0; m < layout.micro_batches; ++m)
      made.actions[static_cast<std::size_t>(layout.chunks[chunk].stage)].push_back({kind, static_cast<int>(chunk), m});
  };
  for (std::size_t chunk = 0; chunk < layout.chunks.size(); ++chunk) {
    made.rank_of_chunk.push_back(layout.chunks[chunk].stage);
    add(pipeline::Compute::forward, chunk);
  }
  for (std::size_t chunk = layout.chunks.size(); chunk-- > 0;) add(pipeline::Compute::backward, chunk);
  return made;
}

}  // namespace espalier::torchrt
