#include "planner/core/model/scheduled_time.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/generate.hpp"

namespace espalier {

using pipeline::Action;
using pipeline::Compute;

namespace {

// So many rounds of as many micro-batches as stages are simulated; more of them only repeat the last round.
constexpr int kRounds = 6;
constexpr std::size_t kMostLists = 16;
constexpr std::size_t kMostActions = 5'000'000;  // of all lists that a thread keeps: about 64 MB

}  // namespace

// Lists run against each other; a lean form of pipeline::simulate().
double time_of_lists(const pipeline::Schedule& lists, const pipeline::Costs& costs, std::span<const double> after) {
  constexpr double kNever = -1;
  const std::size_t ranks = lists.actions.size(), chunks = costs.size();
  const auto per_chunk = static_cast<std::size_t>(lists.micro_batches);
  std::vector<double> forward(chunks * per_chunk, kNever), backward(forward), clock(ranks, 0.0);
  std::vector<std::size_t> next(ranks, 0);
  const auto owner = [&](std::size_t chunk) { return lists.rank_of_chunk[chunk]; };
  const auto step = [&](std::size_t rank) {
    const Action& action = lists.actions[rank][next[rank]];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const std::size_t cell = chunk * per_chunk + static_cast<std::size_t>(action.micro_batch);
    double ready = 0;
    if (action.kind == Compute::forward && chunk > 0) {
      ready = forward[cell - per_chunk];
      if (ready == kNever) return false;
      if (owner(chunk - 1) != owner(chunk)) ready += costs[chunk - 1].send_forward;
    } else if (action.kind == Compute::backward_input && chunk + 1 < chunks) {
      ready = backward[cell + per_chunk];
      if (ready == kNever) return false;
      if (owner(chunk + 1) != owner(chunk)) ready += costs[chunk + 1].send_backward;
    }
    double& now = clock[rank];
    now = std::max(now, ready);
    if (action.kind == Compute::forward) forward[cell] = now += costs[chunk].forward;
    else if (action.kind == Compute::backward_input) backward[cell] = now += costs[chunk].backward_input;
    else now += costs[chunk].backward_weight;
    ++next[rank];
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      while (next[rank] < lists.actions[rank].size() && step(rank)) progress = true;
  }
  double time = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ESPALIER_INVARIANT(next[rank] == lists.actions[rank].size());
    time = std::max(time, clock[rank] + after[rank]);
  }
  return time;
}

pipeline::Schedule in_parts(pipeline::Schedule lists) {
  for (auto& list : lists.actions) {
    std::vector<Action> parts;
    parts.reserve(list.size() * 3 / 2);
    for (const Action& action : list) {
      if (action.kind != Compute::backward) {
        parts.push_back(action);
        continue;
      }
      parts.push_back({Compute::backward_input, action.chunk, action.micro_batch});
      parts.push_back({Compute::backward_weight, action.chunk, action.micro_batch});
    }
    list = std::move(parts);
  }
  return lists;
}

std::shared_ptr<const pipeline::Schedule> lists_of(PipelineForm form, int stages, int micro_batches) {
  struct Kept {
    PipelineForm form;
    int stages, micro_batches;
    std::shared_ptr<const pipeline::Schedule> lists;
  };
  thread_local std::deque<Kept> known;
  for (const Kept& one : known)
    if (one.form == form && one.stages == stages && one.micro_batches == micro_batches) return one.lists;
  auto lists = std::make_shared<const pipeline::Schedule>(
      in_parts(pipeline::generate(form.schedule(), {stages, micro_batches, form.chunks})));
  known.push_front({form, stages, micro_batches, lists});
  const auto actions = [](const Kept& one) {
    return std::size_t{3} * static_cast<std::size_t>(one.stages) * static_cast<std::size_t>(one.form.chunks) *
           static_cast<std::size_t>(one.micro_batches);
  };
  std::size_t sum = 0, keep = 0;
  while (keep < known.size() && keep < kMostLists && (keep == 0 || sum + actions(known[keep]) < kMostActions))
    sum += actions(known[keep++]);
  while (known.size() > keep) known.pop_back();
  return lists;
}

double scheduled_time(PipelineForm form, int stages, int micro_batches, const pipeline::Costs& costs,
                      std::span<const double> after) {
  ESPALIER_INVARIANT(costs.size() == static_cast<std::size_t>(stages * form.chunks));
  const auto time = [&](int count) { return time_of_lists(*lists_of(form, stages, count), costs, after); };
  if (micro_batches <= (kRounds + 1) * stages || stages > micro_batches) return time(micro_batches);
  // The groups of the interleaved schedule are of as many micro-batches as there are stages, so the rest is kept.
  const int few = kRounds * stages + micro_batches % stages - stages;
  const double before = time(few), then = time(few + stages);
  return then + (then - before) * ((micro_batches - few) / stages - 1);
}

int enough_micro_batches(int stages, int micro_batches) {
  return micro_batches <= kRounds * stages ? micro_batches : (kRounds - 1) * stages + micro_batches % stages;
}

double most_held_by(std::span<const Action> list, std::span<const double> weight, bool recompute) {
  const Compute freeing = recompute ? Compute::backward_input : Compute::backward_weight;
  double held = 0, peak = 0;
  for (const Action& action : list) {
    if (action.kind == Compute::forward) peak = std::max(peak, held += weight[static_cast<std::size_t>(action.chunk)]);
    else if (action.kind == freeing) held -= weight[static_cast<std::size_t>(action.chunk)];
  }
  // Shares of a stage's chunks do not add up to exactly one, and whole micro-batches are compared with whole ones.
  const double whole = std::round(peak);
  return std::abs(peak - whole) < 1e-9 ? whole : peak;
}

std::vector<double> most_held(const pipeline::Schedule& lists, std::span<const double> weight, bool recompute) {
  std::vector<double> most;
  for (const auto& list : lists.actions) most.push_back(most_held_by(list, weight, recompute));
  return most;
}

}  // namespace espalier
