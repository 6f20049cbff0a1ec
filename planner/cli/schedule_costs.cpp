#include "planner/cli/schedule_costs.hpp"

#include "planner/cli/arguments.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::cli {

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
  return costs;
}

std::vector<double> schedule_memory(const ScheduleArguments& arguments, int ranks) {
  if (arguments.memory.size() == 1) return std::vector<double>(static_cast<std::size_t>(ranks), arguments.memory[0]);
  if (!arguments.memory.empty() && arguments.memory.size() != static_cast<std::size_t>(ranks))
    throw UsageError("--memory: has " + std::to_string(arguments.memory.size()) + " values; give one, or one a rank (" +
                     std::to_string(ranks) + ")");
  return arguments.memory;
}

double stage_activation(const pipeline::Costs& costs, const pipeline::Schedule& schedule) {
  double sum = 0;
  for (std::size_t chunk = 0; chunk < costs.size(); ++chunk)
    if (schedule.rank_of_chunk[chunk] == 0) sum += costs[chunk].activation;
  return sum > 0 ? sum : 1;
}

}  // namespace espalier::cli
