#include "torchrt/schedule/must_run.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {
constexpr std::size_t kMostChecked = 20'000;
}

void must_run(const ScheduleOptions& options, const Layout& layout, Messages messages) {
  std::size_t actions = 0;
  for (const auto& list : options.given->actions) actions += list.size();
  if (actions / layout.stages.size() * layout.ranks.size() > kMostChecked) return;
  if (const auto problems = check(make_schedule(layout, options), messages); !problems.empty())
    throw Error(problems.front());
}

}  // namespace espalier::torchrt
