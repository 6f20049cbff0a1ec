#include "planner/core/solver/pareto.hpp"

#include <algorithm>
#include <memory>

#include "planner/core/error.hpp"
#include "planner/core/solver/pareto_run.hpp"

namespace espalier {
namespace {

constexpr std::size_t kFirstWidth = 4, kWiden = 4;
// At most half of the work that is left goes into counting pools, and half of the rest into tables.
constexpr long kBoundShare = 2;

// One run for every N_b and schedule. If all stages must have the same DP degree: one for every N_b, schedule
// and DP degree.
std::vector<std::unique_ptr<ParetoRun>> runs_of(const Evaluator& evaluator, GpuStates& states, ParetoWork& work,
                                                const ParetoBest& best) {
  const Problem& problem = evaluator.problem();
  int groups = 0;
  for (const GpuClass& one : states.classes()) groups += one.gpus / states.tp_degrees().front();
  std::vector<std::pair<int, int>> wanted;  // index of N_b, DP degree
  for (std::size_t choice = 0; choice < evaluator.micro_batch_counts().size(); ++choice) {
    const int micro_batch = problem.job.global_batch / evaluator.micro_batch_counts()[choice];
    const bool each = problem.bounds.uniform_dp && problem.bounds.fixed_dp == 0;
    for (int dp = each ? 1 : problem.bounds.fixed_dp;
         dp <= (each ? std::min(groups, micro_batch) : problem.bounds.fixed_dp); ++dp)
      wanted.emplace_back(choice, dp);
  }
  std::vector<std::unique_ptr<ParetoRun>> runs;
  for (const auto& [choice, dp] : wanted)
    for (const PipelineForm& form : evaluator.forms())
      runs.push_back(std::make_unique<ParetoRun>(evaluator, states, choice, dp, form));
  for (const auto step : {&ParetoRun::count_pools, &ParetoRun::fill_tables}) {
    std::erase_if(runs, [&](const auto& run) { return run->bound() >= best.limit(); });
    const long most = work.left() / kBoundShare / static_cast<long>(std::max<std::size_t>(1, runs.size()));
    for (const auto& run : runs) work.add(((*run).*step)(most));
  }
  std::erase_if(runs, [&](const auto& run) { return run->bound() >= best.limit(); });
  std::stable_sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a->bound() < b->bound(); });
  return runs;
}

PlanSketch sketch_of(const Evaluator& evaluator, const GpuStates& states, const ParetoBest& best) {
  PlanSketch sketch;
  sketch.form = best.form;
  sketch.micro_batches = evaluator.micro_batch_counts()[static_cast<std::size_t>(best.choice)];
  auto pieces = states.pieces(best.taken);
  for (std::size_t s = pieces.size(); s-- > 0;)
    sketch.stages.push_back({states.shape(best.taken[s].shape).tp, best.layers[s], std::move(pieces[s])});
  return sketch;
}

}  // namespace

ParetoResult pareto_search(Evaluator& evaluator, std::span<const Piece> available, const ParetoLimits& limits,
                           double incumbent_ms) {
  ParetoResult result;
  GpuStates states(evaluator.problem(), evaluator.tp_degrees(), available, {limits.unit, limits.compact});
  if (states.classes().empty() || states.tp_degrees().empty() || !states.can_lead(0)) {
    result.complete = true;
    return result;
  }
  ParetoWork work(limits.max_labels, limits.stop);
  ParetoBest best;
  best.ms = incumbent_ms;
  auto runs = runs_of(evaluator, states, work, best);
  ParetoScratch scratch;
  // A narrow beam over every N_b comes first. Its results save the wider beams most of their
  // labels.
  for (std::size_t width = kFirstWidth; !runs.empty() && !work.ended(); width *= kWiden)
    std::erase_if(runs, [&](const auto& run) {
      return run->bound() >= best.limit() || run->run(width, work, best, scratch) == ParetoRun::End::complete;
    });
  result.complete = runs.empty() && states.whole() && evaluator.least_fill() == 1;
  result.labels = work.done();
  if (best.choice >= 0) {
    Solution solution{sketch_of(evaluator, states, best), 0};
    // The time of 1F1B alone is exact. The other forms' layers are balanced anew for their own time and memory.
    const bool exact = evaluator.least_fill() == 1;
    solution.ms = exact ? evaluator.score_sketch(solution.sketch) : evaluator.balance_sketch(solution.sketch).ms;
    ESPALIER_INVARIANT(!exact || solution.ms < kInfeasible);
    if (solution.ms < incumbent_ms) result.best = std::move(solution);
  }
  return result;
}

}  // namespace espalier
