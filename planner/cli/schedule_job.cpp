#include "planner/cli/schedule_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "planner/cli/ask.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/pipeline_view.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kLeast = 1e-9;  // an operation that takes no time is none

Json answer_of(const ScheduleArguments& arguments) {
  if (arguments.profile.empty()) return ask(wire::load_config(), "job", {{"job", arguments.job}});
  std::ifstream in = open_input(arguments.profile);
  if (!in) throw Error("--profile: " + arguments.profile + ": cannot be read: " + std::strerror(errno));
  try {
    return parse_json(in);
  } catch (const std::exception& problem) {
    throw Error("--profile: " + arguments.profile + ": " + problem.what());
  }
}

PipelineView view_of(const ScheduleArguments& arguments) {
  const Json answer = answer_of(arguments);
  const std::string name =
      arguments.profile.empty() ? "job " + std::to_string(arguments.job) : "--profile: " + arguments.profile;
  const Json job = answer.is_object() ? answer.value("job", Json()) : Json();
  const Json pipeline = job.is_object() ? job.value("pipeline", Json(nullptr)) : Json(nullptr);
  if (pipeline.is_null())
    throw Error(name +
                ": no pipeline was measured; a job is measured in its first steps, and its plan must have stages");
  try {
    return pipeline.get<PipelineView>();
  } catch (const Error& error) {
    throw Error(name + ": " + error.what());
  }
}

}  // namespace

std::string take_job(ScheduleArguments& arguments) {
  const PipelineView view = view_of(arguments);
  arguments.ranks = static_cast<int>(view.stages.size());
  arguments.micro_batches = view.micro_batches;
  for (auto* values :
       {&arguments.forward, &arguments.backward_input, &arguments.backward_weight, &arguments.activation})
    values->clear();
  const bool limited = !arguments.memory.empty();
  double after = 0;
  for (const StageView& stage : view.stages) {
    arguments.forward.push_back(std::max(stage.forward, kLeast));
    arguments.backward_input.push_back(std::max(stage.backward_input, kLeast));
    arguments.backward_weight.push_back(std::max(stage.backward_weight, kLeast));
    arguments.activation.push_back(stage.activation / kGiB);
    if (!limited) arguments.memory.push_back(std::max(stage.room / kGiB, kLeast));
    arguments.hop = std::max(arguments.hop, stage.send);
    after = std::max(after, stage.after);
  }
  const auto edge = [&](const EdgeView& one) -> ScheduleArguments::Edge {
    return {one.forward, one.backward_input, one.backward_weight, limited ? 0 : one.bytes / kGiB};
  };
  arguments.first = edge(view.first);
  arguments.last = edge(view.last);
  std::string text = fmt::format(
      "{}: {}, {}, {}. Times in ms, memory in GiB, as measured. A step takes up to {:.4g} ms "
      "more, "
      "for the sums of gradients and the optimizer.",
      arguments.profile.empty() ? "job " + std::to_string(arguments.job) : arguments.profile,
      counted(static_cast<std::int64_t>(view.stages.size()), "stage"), counted(view.micro_batches, "micro-batch", "es"),
      view.schedule, after);
  if (view.whole_backward) {
    arguments.freed_by_input = 1;
    text +=
        " The job recomputes activations: its backward passes are not taken apart, and zero-bubble schedules gain "
        "nothing.";
  }
  if (view.weight_assumed) text += " Which part of the backward pass can wait is assumed, by the model's shape.";
  return text + "\n";
}

}  // namespace espalier::cli
