#include "planner/cli/schedule_search.hpp"

#include <fmt/format.h>

#include "planner/cli/schedule_costs.hpp"
#include "planner/core/error.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::cli {
namespace {

std::vector<std::vector<int>> placements(const ScheduleArguments& arguments) {
  std::vector<std::vector<int>> all;
  for (const int chunks : {1, 2})
    if (arguments.chunks == 0 || arguments.chunks == chunks)
      all.push_back(pipeline::looped_placement(arguments.ranks, chunks));
  if (arguments.chunks == 0 || arguments.chunks == 2) all.push_back(pipeline::v_placement(arguments.ranks));
  if (all.empty()) all.push_back(pipeline::looped_placement(arguments.ranks, arguments.chunks));
  return all;
}

// "rank 2 needs 1.5 for one micro-batch": of the rank that lacks most.
std::string shortage(const pipeline::SearchProblem& problem) {
  std::vector<double> needed(static_cast<std::size_t>(problem.ranks));
  for (std::size_t chunk = 0; chunk < problem.costs.size(); ++chunk)
    needed[static_cast<std::size_t>(problem.rank_of_chunk[chunk])] += problem.costs[chunk].activation;
  std::size_t worst = 0;
  for (std::size_t rank = 1; rank < needed.size(); ++rank)
    if (needed[rank] - problem.memory[rank] > needed[worst] - problem.memory[worst]) worst = rank;
  return fmt::format("rank {} needs {:.4g} for one micro-batch alone, and has {:.4g}", worst, needed[worst],
                     problem.memory[worst]);
}

}  // namespace

pipeline::Found searched_schedule(const ScheduleArguments& arguments, const pipeline::Schedule* given) {
  std::optional<pipeline::Found> best;
  std::string why_not;
  const auto all = given ? std::vector<std::vector<int>>{given->rank_of_chunk} : placements(arguments);
  for (const std::vector<int>& placement : all) {
    pipeline::SearchProblem problem;
    problem.ranks = given ? static_cast<int>(given->actions.size()) : arguments.ranks;
    problem.micro_batches = given ? given->micro_batches : arguments.micro_batches;
    problem.rank_of_chunk = placement;
    pipeline::Schedule shape{problem.micro_batches, placement, {}};
    shape.actions.resize(static_cast<std::size_t>(problem.ranks));
    problem.costs = schedule_costs(arguments, shape);
    problem.memory = schedule_memory(arguments, shape);
    pipeline::SearchOptions options;
    options.work = static_cast<std::int64_t>(arguments.effort * static_cast<double>(pipeline::usual_work(problem)));
    std::vector<pipeline::Schedule> starts;
    if (given) starts.push_back(*given);
    pipeline::Found found = pipeline::search(problem, options, starts);
    if (!found.found()) why_not = shortage(problem);
    else if (!best || found.time < best->time) best = std::move(found);
  }
  if (!best) throw Error("--memory: no schedule fits: " + why_not);
  return std::move(*best);
}

}  // namespace espalier::cli
