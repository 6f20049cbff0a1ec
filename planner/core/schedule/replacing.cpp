#include "planner/core/schedule/replacing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/schedule/growing.hpp"
#include "planner/core/schedule/growth_record.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/shrinking.hpp"

namespace espalier {
namespace {

constexpr double kLeastSeconds = 10, kRestSeconds = 60, kLongestRest = 3600;
// Lists may never run, e.g. where the program can take none: the job must lose nothing then.
constexpr double kMostSlower = 1.02;

std::vector<GpuId> gpus_of(const Plan& plan) {
  auto gpus = plan.ranks();
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

// The plan as it is first, then others. Empty: it does not fit by estimate.
std::vector<PlacementReach> reaches_of(const Plan& plan, const PlanSketch& sketch, const Problem& problem) {
  auto list = placement_reaches(plan, sketch, problem);
  if (list.empty()) list.push_back(reach_of(plan, problem.hardware, problem.topology, problem.job));
  return list;
}

bool searchable(const Plan& plan) {
  return plan.stages.size() < 2 ||
         3.0 * static_cast<double>(plan.model_chunks().size()) * plan.micro_batches <= kMostSearchedOperations;
}

}  // namespace

Replacing::Placement Replacing::placement_of(const Plan& plan) {
  const PipelineForm form = form_of(plan);
  return {static_cast<int>(plan.stages.size()), form.chunks, form.v_shaped()};
}

bool replaces(const ElasticJob& job) { return chooses_schedule(job) && !job.parallel.first; }

bool Replacing::is_due(const Player& one, const PlanningInput& input) const {
  const auto at = known_.find(one.job->id);
  if (at == known_.end()) return true;
  const Known& known = at->second;
  // A launcher may report another plan again and again.
  if (known.plan != *one.job->plan) return input.now - known.looked >= kLeastSeconds;
  const bool news = known.again || !(known.coefficients == input.coefficients.at(one.job->id));
  return news && input.now - known.looked >= known.rest;
}

void Replacing::look(Player& one, const PlanningInput& input) {
  const Plan& present = *one.job->plan;
  Known& known = known_[one.job->id];
  if (known.plan != present) {
    if (known.plan.stages.empty() || gpus_of(known.plan) != gpus_of(present)) known.left.clear();
    else if (std::find(known.left.begin(), known.left.end(), placement_of(known.plan)) == known.left.end())
      known.left.push_back(placement_of(known.plan));
    known.plan = present;
    known.rest = 0;
  } else {
    known.rest = std::clamp(2 * known.rest, kRestSeconds, kLongestRest);
  }
  known.coefficients = input.coefficients.at(one.job->id);
  known.looked = input.now;
  known.again = false;
  known.found.reset();
  try {
    known.found = best_of(one, known.left);
  } catch (const Error&) {
    // A launcher may report any plan, and what it reports must not prevent planning for other jobs.
  }
}

std::optional<Replacing::Found> Replacing::best_of(Player& one, const std::vector<Placement>& left) {
  VirtualJob& job = *one.virtual_job;
  const Plan& present = *one.job->plan;
  const Problem& problem = job.problem();
  std::vector<PlacementReach> list = reaches_of(present, job.present().sketch, problem);
  std::vector<PlanSketch> sketches(list.size(), job.present().sketch);
  std::size_t named = 0;  // the one that the known schedules alone would choose
  const WorkingPlan& better = job.replanned(kReplanEffort);
  if (better.sketch != job.present().sketch)
    if (auto plan = materialize(problem, better.sketch, *one.job, job.held()); plan && *plan != present) {
      named = list.size();
      for (PlacementReach& reach : reaches_of(*plan, better.sketch, problem)) list.push_back(std::move(reach));
      sketches.resize(list.size(), better.sketch);
    }
  const PlacementReach& own = list.front();
  if (!(own.named_ms > 0)) return std::nullopt;  // the model cannot express it
  // Where one plan has too many operations to be searched, none is: its lists would be faster too.
  const bool by_lists = std::all_of(list.begin(), list.end(), [](const auto& reach) { return searchable(reach.plan); });
  if (!by_lists)
    for (PlacementReach& reach : list) reach.searched_ms = reach.named_ms;
  const auto was_left = [&](const Plan& plan) {
    const Placement placement = placement_of(plan);
    return placement != placement_of(present) && std::find(left.begin(), left.end(), placement) != left.end();
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < list.size(); ++i)
    if (list[i].reached_ms() < list[best].reached_ms() && list[i].named_ms <= kMostSlower * own.named_ms &&
        !was_left(list[i].plan))
      best = i;
  if (best == 0) return std::nullopt;
  Found found{own, list[best], best != named, pessimist(one).doubts(sketches[best]), 0, 0};
  if (!found.doubted) return found;
  const PlacementReach worst_present = pessimist(one).reach(found.present.plan),
                       worst_next = pessimist(one).reach(found.next.plan);
  if (worst_next.named_ms > kMostSlower * worst_present.named_ms) return std::nullopt;
  found.worst_present_ms = worst_present.reached_ms();
  found.worst_next_ms = worst_next.reached_ms();
  return found;
}

std::optional<Decision> Replacing::decision(const Player& one, const Found& found, const Moment& moment) const {
  const double now = found.present.reached_ms(), next = found.next.reached_ms();
  if (!moment.payoff.worth_its_move(one, now, next, found.next.plan)) return std::nullopt;
  if (found.doubted && !moment.payoff.worth_its_move(one, found.worst_present_ms, found.worst_next_ms, found.next.plan))
    return std::nullopt;
  Decision d = decision_for(moment.input, *one.job, DecisionKind::migrate);
  add_unused(*one.job, found.next.plan, d.release);
  // What the job runs now: its own schedule, or lists already.
  const double ms = 1000 * one.job->step_seconds;
  const bool lists = std::abs(ms - now) < std::abs(ms - found.present.named_ms);
  d.predicted_step_seconds = one.job->step_seconds * next / (lists ? now : found.present.named_ms);
  d.reason = "a faster plan on the GPUs it has: from " + seconds_text(one.job->step_seconds) + " to a predicted " +
             seconds_text(d.predicted_step_seconds) + " per step";
  if (found.by_search) d.reason += std::string("; ") + kPlacedBySearch;
  d.candidates.push_back({describe(found.present.plan), 0, d.predicted_step_seconds * now / next, 0,
                          "the lists that it reaches take longer"});
  d.candidates.push_back(
      {describe(found.next.plan), found.next.plan.gpu_count() - one.first_gpus, d.predicted_step_seconds, 0, {}});
  d.plan = found.next.plan;
  return d;
}

std::vector<Decision> Replacing::find(const Moment& moment, const std::vector<Player*>& players) {
  const PlanningInput& input = moment.input;
  // A job is not among `players` while it changes, and must not be forgotten then.
  std::erase_if(known_, [&](const auto& entry) { return input.now - entry.second.looked >= 2 * kLongestRest; });
  std::vector<Decision> decisions;
  if (moment.options.as_printed) return decisions;
  std::vector<Player*> own, due;
  for (Player* one : players) {
    if (!replaces(*one->job) || !input.coefficients.contains(one->job->id) || input.tuned.contains(one->job->id))
      continue;
    own.push_back(one);
    if (is_due(*one, input)) due.push_back(one);
  }
  const auto order = [&](const Player* one) {
    const auto at = known_.find(one->job->id);
    return std::pair(at == known_.end() ? -std::numeric_limits<double>::infinity() : at->second.looked, one->job->id);
  };
  std::sort(due.begin(), due.end(), [&](const Player* a, const Player* b) { return order(a) < order(b); });
  if (due.size() > kMostLooks) due.resize(kMostLooks);
  for (Player* one : due) look(*one, input);
  for (Player* one : own) {
    const auto at = known_.find(one->job->id);
    if (at == known_.end() || !at->second.found || at->second.plan != *one->job->plan) continue;
    Known& known = at->second;
    auto d = decision(*one, *known.found, moment);
    if (!d) continue;
    decisions.push_back(std::move(*d));
    // A launcher that cannot make the change is not asked again and again.
    known.found.reset();
    known.again = true;
    known.rest = std::max(known.rest, kRestSeconds);
    known.looked = input.now;
  }
  return decisions;
}

}  // namespace espalier
