#include "planner/core/schedule/arena/arena.hpp"
#include "planner/core/schedule/flextrain/flextrain.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options) {
  if (options.arena) return make_arena_scheduler(options, *options.arena);
  return options.flextrain ? make_flextrain_scheduler(options, *options.flextrain) : make_suika_scheduler(options);
}

}  // namespace espalier
