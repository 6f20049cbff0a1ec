#include "torchrt/tell_of_own_lists.hpp"

#include <cstdio>

#include "planner/core/model/own_lists.hpp"
#include "torchrt/schedule/must_fit.hpp"
#include "torchrt/schedule_options.hpp"

namespace espalier::torchrt {

void tell_of_own_lists(const std::shared_ptr<const pipeline::Schedule>& lists, const RankState& state,
                       const World& world) {
  if (!lists || world.rank() != 0) return;
  const Config& config = state.config();
  ScheduleOptions options = schedule_options(config, state.plan());
  options.given = lists;
  std::fprintf(stderr, "espalier: train: %s\n", told_of_file(options, state.layout()).c_str());
  if (config.parallel.limits.lists.empty())
    std::fprintf(stderr,
                 "espalier: train: --schedule: the file's lists are longer than the %zu KiB that the planner takes; it "
                 "plans with the time and the memory of %s\n",
                 kMostOwnLists >> 10, config.training.schedule.c_str());
}

}  // namespace espalier::torchrt
