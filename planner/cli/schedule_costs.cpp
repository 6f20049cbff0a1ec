#include "planner/cli/schedule_costs.hpp"

#include <algorithm>

#include "planner/cli/arguments.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::cli {
namespace {

constexpr double kLeastMemory = 1e-9;  // a rank whose edge leaves it nothing; no activations fit

}  // namespace

pipeline::Costs schedule_costs(const ScheduleArguments& arguments, const pipeline::Schedule& schedule) {
  const auto& placement = schedule.rank_of_chunk;
  const auto chunks = pipeline::chunks_of_ranks(placement, static_cast<int>(schedule.actions.size()));
  // What `chunk` has of the values of an option.
  const auto share = [&](const char* option, const std::vector<double>& values, std::size_t chunk) {
    const auto rank = static_cast<std::size_t>(placement[chunk]);
    const auto parts = static_cast<double>(chunks[rank].size());
    if (values.size() == 1) return values[0] / parts;
    if (values.size() == chunks.size()) return values[rank] / parts;
    if (values.size() == placement.size()) return values[chunk];
    throw UsageError(std::string(option) + ": has " + std::to_string(values.size()) +
                     " values; give one, one a rank (" + std::to_string(chunks.size()) + ") or one a chunk (" +
                     std::to_string(placement.size()) + ")");
  };
  pipeline::Costs costs(placement.size());
  for (std::size_t chunk = 0; chunk < costs.size(); ++chunk) {
    pipeline::ChunkCosts& cost = costs[chunk];
    cost.forward = share("--forward", arguments.forward, chunk);
    cost.backward_input = share("--backward-input", arguments.backward_input, chunk);
    cost.backward_weight = share("--backward-weight", arguments.backward_weight, chunk);
    cost.backward = arguments.backward.empty() ? cost.backward_input + cost.backward_weight
                                               : share("--backward", arguments.backward, chunk);
    cost.activation = share("--activation", arguments.activation, chunk);
    cost.freed_by_input = arguments.freed_by_input * cost.activation;
    cost.send_forward = cost.send_backward = arguments.hop;
  }
  const auto add = [](pipeline::ChunkCosts& cost, const ScheduleArguments::Edge& edge) {
    cost.forward += edge.forward;
    cost.backward_input += edge.backward_input;
    cost.backward_weight += edge.backward_weight;
    cost.backward += edge.backward_input + edge.backward_weight;
  };
  add(costs.front(), arguments.first);
  add(costs.back(), arguments.last);
  return costs;
}

std::vector<double> schedule_memory(const ScheduleArguments& arguments, const pipeline::Schedule& schedule) {
  const std::size_t ranks = schedule.actions.size();
  std::vector<double> memory = arguments.memory;
  if (memory.empty()) return memory;
  if (memory.size() == 1) memory.assign(ranks, arguments.memory[0]);
  if (memory.size() != ranks)
    throw UsageError("--memory: has " + std::to_string(memory.size()) + " values; give one, or one a rank (" +
                     std::to_string(ranks) + ")");
  const auto take = [&](int rank, double edge) {
    double& of_rank = memory[static_cast<std::size_t>(rank)];
    of_rank = std::max(of_rank - edge, kLeastMemory);
  };
  take(schedule.rank_of_chunk.front(), arguments.first.memory);
  take(schedule.rank_of_chunk.back(), arguments.last.memory);
  return memory;
}

double stage_activation(const pipeline::Costs& costs, const pipeline::Schedule& schedule) {
  double sum = 0;
  for (std::size_t chunk = 0; chunk < costs.size(); ++chunk)
    if (schedule.rank_of_chunk[chunk] == 0) sum += costs[chunk].activation;
  return sum > 0 ? sum : 1;
}

}  // namespace espalier::cli
