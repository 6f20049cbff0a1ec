#include "planner/core/schedule/shrinking.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "planner/core/schedule/describe_sketch.hpp"
#include "planner/core/schedule/materialize.hpp"

namespace espalier {
namespace {
constexpr SearchEffort kShrinkEffort{1, 4, 0, 1'000};
}  // namespace

std::optional<Decision> Shrinking::shrink(Player& one, std::vector<JobId> leaving) const {
  auto below = one.virtual_job->shrunk_to(one.virtual_job->held_without(leaving), shrink_effort());
  if (!below) return std::nullopt;
  leave_what_brings_nothing(one, *below, leaving);
  auto plan = materialize(one.virtual_job->problem(), below->sketch, *one.job, one.virtual_job->held_without(leaving));
  if (!plan) return std::nullopt;
  Decision d = decision_for(input_, *one.job, DecisionKind::shrink);
  add_unused(*one.job, *plan, leaving);
  d.release = std::move(leaving);
  d.plan = std::move(*plan);
  d.predicted_step_seconds =
      one.job->step_seconds * one.virtual_job->evaluator().exact_sketch(below->sketch) / one.first_exact;
  d.candidates.push_back({describe_sketch(below->sketch, one.virtual_job->site().topology),
                          d.plan.gpu_count() - one.first_gpus,
                          d.predicted_step_seconds,
                          0,
                          {}});
  return d;
}

std::optional<Decision> Shrinking::reclaim(Player& one, const std::vector<StackTop>& stack, double limit) const {
  // Each extension was lent since it was worth it beside those before it. So the newest one that is still worth it ends
  // the search: together they may bring less than the newest has to, and the job would get all of them again.
  const StackTop* deepest = nullptr;
  double benefit = 0;
  for (const StackTop& top : stack) {
    const double own = top.own_benefit * discount_without(one, top);
    if (own >= limit) break;
    deepest = &top, benefit = own;
  }
  if (deepest == nullptr) return std::nullopt;
  auto d = shrink(one, deepest->extensions);
  if (!d) return std::nullopt;
  char text[160];
  std::snprintf(text, sizeof text,
                benefit > 0 ? "the cluster has filled: a benefit of %.3g is below the threshold of %.3g"
                            : "extensions make it no faster (a benefit of %.3g, the threshold is %.3g)",
                benefit, limit);
  d->reason = std::string(text) + ": give back " + std::to_string(gpus_in(*one.job, d->release)) + " GPUs, run on " +
              std::to_string(d->plan.gpu_count());
  d->candidates.front().benefit = benefit;
  return d;
}

double Shrinking::discount_without(const Player& one, const StackTop& top) const {
  return one.discount / one.standing.discount * one.standing.discount_if(*one.job, input_.now, top.slower);
}

// The paper undoes scale-outs in the order of their history, without a search of its own.
const SearchEffort& Shrinking::shrink_effort() const { return options_.as_printed ? kStackEffort : kShrinkEffort; }

// If the plan leaves GPUs idle, it may be as fast without a whole extension. Such extensions are
// given back too: first the ones that hold no state, then the newest.
void Shrinking::leave_what_brings_nothing(Player& one, WorkingPlan& below, std::vector<JobId>& leaving) const {
  VirtualJob& job = *one.virtual_job;
  std::vector<JobId> extensions;
  for (const Holding& held : one.job->extensions) extensions.push_back(held.job);
  std::vector<JobId> unused;
  add_unused(*one.job, *one.job->plan, unused);
  const auto before = [&](JobId a, JobId b) {
    return std::pair(!std::binary_search(unused.begin(), unused.end(), a), b) <
           std::pair(!std::binary_search(unused.begin(), unused.end(), b), a);
  };
  std::sort(extensions.begin(), extensions.end(), before);
  extensions.erase(std::unique(extensions.begin(), extensions.end()), extensions.end());
  auto kept = pieces_of(job.held_without(leaving), job.site());
  for (const JobId extension : extensions) {
    if (std::binary_search(leaving.begin(), leaving.end(), extension)) continue;
    const int spare = count_gpus(kept) - below.sketch.gpus();
    if (spare == 0) return;
    auto more = leaving;
    more.insert(std::upper_bound(more.begin(), more.end(), extension), extension);
    const auto held = job.held_without(more);
    auto fewer = pieces_of(held, job.site());
    if (count_gpus(kept) - count_gpus(fewer) > spare) continue;
    if (!fits(below.sketch, fewer)) {
      auto less = job.shrunk_to(held, kStackEffort);
      if (!less || job.evaluator().exact_sketch(less->sketch) > job.evaluator().exact_sketch(below.sketch)) continue;
      below = std::move(*less);
    }
    leaving = std::move(more);
    kept = std::move(fewer);
  }
}

void add_unused(const ElasticJob& job, const Plan& plan, std::vector<JobId>& leaving) {
  std::map<std::string, std::vector<int>> ranks;
  for (const GpuId& gpu : plan.ranks()) ranks[gpu.node].push_back(gpu.index);
  for (const Holding& held : job.extensions) {
    const std::vector<int>& here = ranks[held.node];
    const bool used = std::any_of(held.gpus.begin(), held.gpus.end(),
                                  [&](int index) { return std::find(here.begin(), here.end(), index) != here.end(); });
    if (!used && std::find(leaving.begin(), leaving.end(), held.job) == leaving.end()) leaving.push_back(held.job);
  }
  std::sort(leaving.begin(), leaving.end());
}

int gpus_in(const ElasticJob& job, const std::vector<JobId>& extensions) {
  std::size_t sum = 0;
  for (const Holding& held : job.extensions)
    if (std::binary_search(extensions.begin(), extensions.end(), held.job)) sum += held.gpus.size();
  return static_cast<int>(sum);
}

}  // namespace espalier
