#include "torchrt/schedule_file.hpp"

#include "planner/core/pipeline_form.hpp"

#include <fstream>
#include <iterator>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/placement.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::torchrt {

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const auto bytes = in ? static_cast<std::int64_t>(in.tellg()) : -1;
  if (bytes < 0) throw Error("--schedule " + path + ": cannot be read");
  if (static_cast<std::size_t>(bytes) > kMaxScheduleText)
    throw Error("--schedule " + path + ": is larger than 256 MiB");
  in.seekg(0);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool runs_on(const std::string& name, int ranks, int chunks, const std::vector<int>& placement) {
  const int needed = pipeline::generator(name).chunks_per_rank;
  return (needed == 0 || needed == chunks) && pipeline::generate(name, {ranks, 1, chunks}).rank_of_chunk == placement;
}

}  // namespace

void use_schedule_file(Config& config, const std::string& path) {
  pipeline::Schedule given;
  const std::string text = content(path);
  try {
    given = pipeline::read_csv(text);
  } catch (const Error& problem) {
    throw Error("--schedule " + path + ": " + problem.what());
  }
  const int ranks = static_cast<int>(given.actions.size());
  const int chunks = static_cast<int>(given.rank_of_chunk.size()) / ranks;
  const bool looped = given.rank_of_chunk == pipeline::looped_placement(ranks, chunks);
  if (!looped && given.rank_of_chunk != pipeline::v_placement(ranks))
    throw Error("--schedule " + path +
                ": its chunks lie neither round the stages (0 1 0 1) nor as a V (0 1 1 0); write it for one of these");
  ParallelLimits& limits = config.parallel.limits;
  if (limits.chunks > 1 && limits.chunks != chunks)
    throw Error("--schedule " + path + ": has " + std::to_string(chunks) + " chunks on each stage, " + config.path +
                " asks for " + std::to_string(limits.chunks) + " (parallel.chunks, training.schedule); change one");
  limits.chunks = chunks;
  limits.v_shaped = !looped;
  std::string& name = config.training.schedule;
  if (name == kAutomaticSchedule || !runs_on(name, ranks, chunks, given.rank_of_chunk))
    name = chunks == 1 ? "1f1b" : looped ? "interleaved" : "zb-v";
  config.training.given_schedule = std::make_shared<const pipeline::Schedule>(std::move(given));
}

}  // namespace espalier::torchrt
