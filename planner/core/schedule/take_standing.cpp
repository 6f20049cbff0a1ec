#include "planner/core/schedule/take_standing.hpp"

#include <algorithm>

#include "planner/core/schedule/shrinking.hpp"

namespace espalier {
namespace {

// Model time of a step on the job's own GPUs, without its extensions. nullopt: no plan fits there.
std::optional<double> exact_alone(Player& one) {
  if (one.job->extensions.empty()) return one.first_exact;
  std::vector<JobId> all;
  for (const Holding& held : one.job->extensions) all.push_back(held.job);
  std::sort(all.begin(), all.end());
  const auto below = one.virtual_job->shrunk_to(one.virtual_job->held_without(all), kStackEffort);
  if (!below) return std::nullopt;
  return one.virtual_job->evaluator().exact_sketch(below->sketch);
}

}  // namespace

void take_standing(std::vector<Player>& players, const SchedulerOptions& options, const PlanningInput& input) {
  const ObjectiveKind kind = options.as_printed ? ObjectiveKind::jct : options.objective.kind;
  std::vector<Contender> contenders;
  contenders.reserve(players.size());
  for (Player& one : players) {
    Contender& contender =
        contenders.emplace_back(Contender{one.job, one.first_size, one.first_gpus, 1, std::nullopt, std::nullopt});
    if (const auto weight = input.weights.find(one.job->id); weight != input.weights.end() && !options.as_printed)
      contender.weight = weight->second;
    if (kind != ObjectiveKind::fairness) continue;
    if (const auto time = input.submitted.find(one.job->id); time != input.submitted.end())
      contender.submitted = time->second;
    if (const auto exact = exact_alone(one); exact && one.first_exact > 0)
      contender.alone_step_seconds = one.job->step_seconds * *exact / one.first_exact;
  }
  const auto found = standings(kind, contenders, input.now, options.as_printed ? 0 : options.short_first);
  for (std::size_t i = 0; i < players.size(); ++i) {
    Player& one = players[i];
    one.standing = found[i];
    one.discount = (options.discount ? options.discount(*one.job) : 1) * one.standing.discount;
    one.turn = one.standing.turn;
  }
}

}  // namespace espalier
