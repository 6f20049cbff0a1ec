#include "planner/daemon/planner_view.hpp"

#include <algorithm>

#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/planning_input.hpp"

namespace espalier {
namespace {

// A view costs about as much time as it is long. It is used again until its making is a twentieth of the loop's time.
constexpr double kShare = 20;

}  // namespace

JobView view_of(const LiveJob& live) {
  JobView view;
  view.job = live.job;
  view.connected = live.link != nullptr;
  view.movable = live.movable;
  view.known = live.profiles.settled() || live.profiles.recalled();
  view.bases = live.bases;
  view.usage = live.usage;
  if (live.open) view.open = live.open->decision.id;
  view.last_change = live.last_change;
  view.failures = live.failures;
  view.not_before = live.not_before;
  view.avoided = live.avoided;
  view.grow_not_before = live.grow_not_before;
  view.types = live.types;
  view.plans_measured = static_cast<int>(live.trials.measured.size());
  view.trials_over = live.trials.finished;
  return view;
}

LiveJob promise_of(const LiveJob& live) {
  LiveJob promise;
  promise.job.id = live.job.id;
  promise.job.uid = live.job.uid;
  promise.open = live.open;
  promise.before = live.before;
  return promise;
}

const JobView* PlannerView::job(JobId id) const {
  const auto at = std::lower_bound(jobs.begin(), jobs.end(), id,
                                   [](const auto& one, JobId sought) { return one->job.id < sought; });
  return at != jobs.end() && (*at)->job.id == id ? at->get() : nullptr;
}

const Weighed* PlannerView::weighed_job(JobId id) const {
  const auto at = std::lower_bound(weighed->begin(), weighed->end(), id,
                                   [](const Weighed& one, JobId sought) { return one.job < sought; });
  return at != weighed->end() && at->job == id ? &*at : nullptr;
}

std::shared_ptr<const PlannerView> Planner::view() {
  const double begin = clock_seconds();
  if (view_ && begin >= view_at_ && begin - view_at_ < kShare * view_cost_) return view_;
  auto view = std::make_shared<PlannerView>();
  view->jobs.reserve(jobs_.size());
  for (const auto& [id, live] : jobs_) {
    auto one = std::make_shared<JobView>(view_of(live));
    for (const auto& [node, share] : slow_nodes_.of(live.job.uid, begin)) one->slow.push_back(node);
    one->behind_slow_links = slow_links_.closed_to(live.job.uid, held_nodes(live.job), begin);
    view->jobs.push_back(std::move(one));
    if (live.open) view->promised.emplace(id, promise_of(live));
  }
  view->slow = slow_nodes_.all(begin);
  view->slow_links = slow_links_.all(begin);
  view->unfit = unfit_nodes_.all(begin);
  view->slurm = last_;
  view->trouble = trouble_;
  view->weighed = weighed_;
  view->settings = settings_now_;
  view_ = std::move(view);
  view_at_ = clock_seconds();
  view_cost_ = std::max(0.0, view_at_ - begin);
  return view_;
}

}  // namespace espalier
