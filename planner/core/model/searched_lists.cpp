#include "planner/core/model/searched_lists.hpp"

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/pipeline_view.hpp"
#include "planner/core/model/scheduled_time.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/order.hpp"
#include "planner/core/pipeline/simulate.hpp"
#include "planner/core/pipeline_form.hpp"

namespace espalier {
namespace {

using pipeline::Action;
using pipeline::Compute;

// F, I and W of all chunks on all micro-batches. Lists of so many are 1 MB of text.
constexpr std::int64_t kMostActions = 100'000;
constexpr double kLeast = 1e-9;  // an operation that takes no time is none

// By stage, as its slowest replica measured it; ms for one micro-batch. 0: not measured.
struct Measured {
  double forward = 0, backward_input = 0, backward_weight = 0;
};

std::vector<Measured> measured_stages(const Profile& profile) {
  std::vector<Measured> stages(profile.plan.stages.size());
  std::vector<double> most(stages.size(), 0.0);
  for (const ReplicaProfile& one : profile.replicas) {
    const auto s = static_cast<std::size_t>(one.stage);
    if (!(one.fwd > 0 && one.bwd > 0) || one.fwd + one.bwd <= most[s]) continue;
    most[s] = one.fwd + one.bwd;
    stages[s] = {one.fwd, std::max(0.0, one.bwd - one.bwd_weights), one.bwd_weights};
  }
  return stages;
}

void add(pipeline::ChunkCosts& cost, const EdgeView& edge) {
  cost.forward += edge.forward;
  cost.backward_input += edge.backward_input;
  cost.backward_weight += edge.backward_weight;
}

// Makes the sum of one time over a stage's chunks what was measured.
void scale(pipeline::Costs& costs, const std::vector<std::size_t>& own, double pipeline::ChunkCosts::*time,
           double measured) {
  double sum = 0;
  for (const std::size_t c : own) sum += costs[c].*time;
  if (!(sum > 0 && measured > 0)) return;
  for (const std::size_t c : own) costs[c].*time *= measured / sum;
}

std::vector<double> peaks(const pipeline::Schedule& lists, const pipeline::Costs& costs) {
  std::vector<double> most;
  for (const pipeline::RankOrder& order : pipeline::order_of(lists)) most.push_back(pipeline::peak_of(order, costs));
  return most;
}

double step_ms(const pipeline::Schedule& lists, const ListProblem& problem) {
  const pipeline::Simulation run = pipeline::simulate(in_parts(lists), problem.search.costs);
  double ms = 0;
  for (std::size_t s = 0; s < run.ranks.size(); ++s) ms = std::max(ms, run.ranks[s].last + problem.after[s]);
  return ms;
}

// An I with its W right behind it is what the trainer does in a B, and a B's sums of gradients overlap more.
pipeline::Schedule put_together(pipeline::Schedule lists) {
  for (auto& list : lists.actions) {
    std::vector<Action> whole;
    for (const Action& action : list) {
      if (!whole.empty() && action.kind == Compute::backward_weight &&
          whole.back() == Action{Compute::backward_input, action.chunk, action.micro_batch})
        whole.back().kind = Compute::backward;
      else whole.push_back(action);
    }
    list = std::move(whole);
  }
  return lists;
}

}  // namespace

namespace {

// What the plan's own shape decides: `plan` of `view`.
ListProblem problem_of(const PipelineView& view, const Plan& plan) {
  const std::vector<Chunk> chunks = plan.model_chunks();
  const std::size_t stages = plan.stages.size();
  if (stages < 2) throw Error("the plan has one stage: there is no order of work to search");
  if (std::int64_t{3} * static_cast<std::int64_t>(chunks.size()) * plan.micro_batches > kMostActions)
    throw Error("the plan has more than " + std::to_string(kMostActions) + " operations in a step");
  ListProblem problem;
  const PipelineForm form = form_of(plan);
  problem.present = *lists_of(form, static_cast<int>(stages), plan.micro_batches);
  problem.search.ranks = static_cast<int>(stages);
  problem.search.micro_batches = plan.micro_batches;
  for (const Chunk& chunk : chunks) problem.search.rank_of_chunk.push_back(chunk.stage);
  if (problem.present.rank_of_chunk != problem.search.rank_of_chunk)
    throw Error("the plan's chunks lie in no way that a known schedule has");

  pipeline::Costs& costs = problem.search.costs;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto s = static_cast<std::size_t>(chunks[c].stage);
    const StageView& stage = view.stages[s];
    const double part = static_cast<double>(chunks[c].layers) / plan.stages[s].layers;
    pipeline::ChunkCosts cost{stage.forward * part, stage.backward_input * part, stage.backward_weight * part};
    cost.activation = stage.activation * part;
    cost.freed_by_input = view.whole_backward ? cost.activation : 0;
    if (c == 0) add(cost, view.first);
    if (c + 1 == chunks.size()) add(cost, view.last);
    const auto send = [&](std::size_t to) {
      const auto other = static_cast<std::size_t>(chunks[to].stage);
      const std::size_t low = std::min(s, other), high = std::max(s, other);
      return low == high ? 0 : view.stages[high - low == 1 ? low : stages - 1].send;
    };
    if (c + 1 < chunks.size()) cost.send_forward = send(c + 1);
    if (c > 0) cost.send_backward = send(c - 1);
    costs.push_back(cost);
  }
  // The view's rooms are without the edges; these stay where they are.
  for (const StageView& stage : view.stages) {
    problem.after.push_back(stage.after);
    problem.search.memory.push_back(stage.room);
  }
  problem.search.memory[static_cast<std::size_t>(chunks.front().stage)] -= view.first.bytes;
  problem.search.memory[static_cast<std::size_t>(chunks.back().stage)] -= view.last.bytes;
  return problem;
}

void finish_times(pipeline::Costs& costs) {
  for (pipeline::ChunkCosts& cost : costs) {
    for (double pipeline::ChunkCosts::*time : {&pipeline::ChunkCosts::forward, &pipeline::ChunkCosts::backward_input,
                                               &pipeline::ChunkCosts::backward_weight})
      cost.*time = std::max(cost.*time, kLeast);
    cost.backward = cost.backward_input + cost.backward_weight;
  }
}

}  // namespace

ListProblem list_problem(const Hardware& hardware, const Topology& topology, const Profile& profile,
                         double known_rail) {
  const Plan& plan = profile.plan;
  Training training = training_of(profile.shape, false);
  const Calibration calibrated = calibrate(hardware, topology, profile, training, {known_rail});
  training.in_parts = true;
  const double share = model_sizes(profile.shape, training, hardware.types.size()).deferred;
  ListProblem problem = problem_of(pipeline_view(hardware, topology, calibrated.job, plan, share), plan);
  pipeline::Costs& costs = problem.search.costs;
  const std::vector<Measured> measured = measured_stages(profile);
  std::vector<std::vector<std::size_t>> own(plan.stages.size());
  for (std::size_t c = 0; c < costs.size(); ++c)
    own[static_cast<std::size_t>(problem.search.rank_of_chunk[c])].push_back(c);
  for (std::size_t s = 0; s < own.size(); ++s) {
    scale(costs, own[s], &pipeline::ChunkCosts::forward, measured[s].forward);
    scale(costs, own[s], &pipeline::ChunkCosts::backward_input, measured[s].backward_input);
    scale(costs, own[s], &pipeline::ChunkCosts::backward_weight, measured[s].backward_weight);
  }
  finish_times(costs);
  const std::vector<double> held = peaks(problem.present, costs);
  for (std::size_t s = 0; s < held.size(); ++s) problem.search.memory[s] = std::max(problem.search.memory[s], held[s]);
  return problem;
}

ListProblem list_problem(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                         const Plan& plan) {
  ListProblem problem = problem_of(pipeline_view(hardware, topology, job, plan, 0), plan);
  finish_times(problem.search.costs);
  return problem;
}

SearchedLists search_lists(const ListProblem& problem, std::int64_t most_work) {
  pipeline::SearchOptions options;
  options.work = std::min(most_work, pipeline::usual_work(problem.search));
  pipeline::Found found = pipeline::search(problem.search, options, {problem.present});
  SearchedLists result;
  result.present_ms = result.ms = step_ms(problem.present, problem);
  result.lists = problem.present;
  result.best_generator = std::move(found.best_generator);
  if (!result.best_generator.empty()) {
    const int chunks = static_cast<int>(problem.search.rank_of_chunk.size()) / problem.search.ranks;
    result.generator_ms =
        step_ms(pipeline::generate(result.best_generator, {problem.search.ranks, problem.search.micro_batches, chunks}),
                problem);
  }
  if (!found.found()) return result;
  // What follows a stage's last work is not part of the search.
  const double ms = step_ms(found.schedule, problem);
  if (ms >= result.ms) return result;
  result.ms = ms;
  result.lists = put_together(std::move(found.schedule));
  return result;
}

}  // namespace espalier
