#include "planner/core/schedule/objective.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "planner/core/schedule/duration_text.hpp"
#include "planner/core/schedule/player.hpp"
#include "planner/core/schedule/urgency.hpp"

namespace espalier {
namespace {

constexpr double kDeadlineFirst = 4, kShortOfTime = 0.8, kMostSpeedup = 3;
constexpr double kMostRho = 64;

double work_left(const Contender& one) { return remaining_seconds(*one.job) * one.size; }

// By work left (objective.hpp, jct).
void take_turns(const std::vector<Contender>& contenders, double short_first, std::vector<JobStanding>& result) {
  double sum = 0;
  int known = 0;
  for (const Contender& one : contenders)
    if (const double work = work_left(one); std::isfinite(work)) sum += work, ++known;
  const double mean = known > 0 ? sum / known : 1;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const double work = work_left(contenders[i]);
    result[i].turn = std::pow(std::max(std::isfinite(work) ? work : mean, 1.0), -short_first);
  }
}

// Linear scaling is the best that more GPUs can bring, and a job that shares a cluster seldom gets more than some.
bool cannot_keep(const Contender& one, const JobStanding& standing) {
  const double most = one.gpus > 0 ? static_cast<double>(one.job->max_gpus) / one.gpus : 1;
  return standing.left_seconds > standing.deadline_seconds * std::clamp(most, 1.0, kMostSpeedup);
}

void put_deadlines_first(const std::vector<Contender>& contenders, std::vector<JobStanding>& result) {
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    JobStanding& one = result[i];
    if (one.deadline_seconds <= 0 || !std::isfinite(one.left_seconds)) continue;
    one.lost = cannot_keep(contenders[i], one);
    if (one.lost) one.discount = 1;  // GPUs would be spent in vain
    else if (one.left_seconds > kShortOfTime * one.deadline_seconds) one.turn *= kDeadlineFirst;
  }
}

double rho_of(const Contender& one, double left_seconds, double now) {
  if (!one.submitted || !one.alone_step_seconds || !std::isfinite(left_seconds)) return 0;
  const double alone = static_cast<double>(one.job->total_steps) * *one.alone_step_seconds;
  return alone > 0 ? (std::max(0.0, now - *one.submitted) + left_seconds) / alone : 0;
}

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

double JobStanding::discount_if(const ElasticJob& job, double now, double slower) const {
  const bool heeds_deadlines = kind == ObjectiveKind::jct || kind == ObjectiveKind::deadline;
  return heeds_deadlines && !lost ? urgency(job, now, slower) : discount;
}

std::vector<JobStanding> standings(ObjectiveKind kind, const std::vector<Contender>& contenders, double now,
                                   double short_first) {
  std::vector<JobStanding> result(contenders.size());
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const ElasticJob& job = *contenders[i].job;
    JobStanding& one = result[i];
    one.kind = kind;
    one.weight = contenders[i].weight;
    one.left_seconds = remaining_seconds(job);
    if (job.deadline > 0) one.deadline_seconds = std::max(0.0, job.deadline - now);
    if (kind == ObjectiveKind::jct || kind == ObjectiveKind::deadline) one.discount = urgency(job, now);
    if (kind == ObjectiveKind::fairness) one.rho = rho_of(contenders[i], one.left_seconds, now);
  }
  if (kind != ObjectiveKind::throughput) take_turns(contenders, short_first, result);
  for (JobStanding& one : result)
    if (one.rho > 0) one.turn *= std::clamp(one.rho, 1 / kMostRho, kMostRho);
  if (kind == ObjectiveKind::deadline) put_deadlines_first(contenders, result);
  for (JobStanding& one : result) one.turn *= one.weight;
  return result;
}

std::string describe(const JobStanding& standing) {
  std::string text = to_string(standing.kind) + ": ";
  if (standing.kind == ObjectiveKind::throughput) text += "gains count as they are";
  else if (!std::isfinite(standing.left_seconds)) text += "how long it still needs is not known";
  else text += duration_text(standing.left_seconds) + " left at its present speed";
  const bool heeds_deadlines = standing.kind == ObjectiveKind::jct || standing.kind == ObjectiveKind::deadline;
  if (heeds_deadlines && standing.deadline_seconds > 0) {
    text += ", " + duration_text(standing.deadline_seconds) + " to its deadline";
    if (standing.lost) text += ", which it is as good as sure to miss";
    if (standing.discount > 1) text += ", so its gains count " + figure(standing.discount) + "-fold";
  }
  if (standing.kind == ObjectiveKind::fairness) {
    if (standing.rho > 0)
      text += ", rho " + figure(standing.rho) + ": its end over its end alone on its own GPUs, from its submission on";
    else text += ", so it counts with a rho of 1";
  }
  if (standing.weight != 1) text += "; weight " + figure(standing.weight);
  return text + "; compared with other jobs' gains by a factor of " + figure(standing.turn);
}

}  // namespace espalier
