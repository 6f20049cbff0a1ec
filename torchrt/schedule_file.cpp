#include "torchrt/schedule_file.hpp"

#include <fstream>
#include <iterator>

#include "planner/core/error.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::torchrt {

namespace {

std::string content(const std::string& path) {
  if (is_folder(path)) throw Error("--schedule " + path + ": is a folder; name a CSV file");
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const auto bytes = in ? static_cast<std::int64_t>(in.tellg()) : -1;
  if (bytes < 0) throw Error("--schedule " + path + ": cannot be read");
  if (static_cast<std::size_t>(bytes) > kMaxScheduleText)
    throw Error("--schedule " + path + ": is larger than 256 MiB");
  in.seekg(0);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

void use_schedule_file(Config& config, const std::string& path) {
  pipeline::Schedule given;
  const std::string text = content(path);
  std::string& name = config.training.schedule;
  PipelineForm beside;
  try {
    given = pipeline::read_csv(text);
    beside = form_beside(given, name);
  } catch (const Error& problem) {
    throw Error("--schedule " + path + ": " + problem.what());
  }
  const int chunks = beside.chunks;
  ParallelLimits& limits = config.parallel.limits;
  if (limits.chunks > 1 && limits.chunks != chunks)
    throw Error("--schedule " + path + ": has " + std::to_string(chunks) + " chunks on each stage, " + config.path +
                " asks for " + std::to_string(limits.chunks) + " (parallel.chunks, training.schedule); change one");
  limits.chunks = chunks;
  limits.v_shaped = beside.v_shaped();
  name = beside.schedule();
  limits.lists = pipeline::write_csv(given);  // what the planner is told
  if (limits.lists.size() > kMostOwnLists) limits.lists.clear();
  config.training.given_schedule = std::make_shared<const pipeline::Schedule>(std::move(given));
}

}  // namespace espalier::torchrt
