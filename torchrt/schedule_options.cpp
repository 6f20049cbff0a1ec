#include "torchrt/schedule_options.hpp"

#include <algorithm>
#include <cstdint>

#include "planner/core/pipeline_form.hpp"

namespace espalier::torchrt {

namespace {

// A received block of the tied table's gradient takes at most this many bytes.
constexpr std::int64_t kTiedBlockBytes = 32 << 20;

}  // namespace

ScheduleOptions schedule_options(const Config& config, const Plan& plan) {
  ScheduleOptions options;
  options.name = plan.schedule.empty() ? config.training.schedule : plan.schedule;
  if (options.name == kAutomaticSchedule) options.name = form_of(plan).schedule();
  options.given = config.training.given_schedule;
  options.zero1 = config.training.zero1;
  options.recompute = config.training.recompute;
  if (config.model.tied_embeddings) options.tied_rows = config.model.vocabulary;
  const std::int64_t row = std::int64_t{config.model.hidden} * static_cast<std::int64_t>(sizeof(float));
  options.tied_block_rows = static_cast<int>(std::max<std::int64_t>(1, kTiedBlockBytes / row));
  return options;
}

}  // namespace espalier::torchrt
