#include "torchrt/recovery/keeping.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Keeping::Keeping(const std::string& vault, int generation, int rank, RankState& state,
                 const std::function<void(const std::string&)>& tell)
    : state_(state), marks_(state.layout().units) {
  if (vault.empty()) return;
  try {
    line_.emplace(vault, generation, rank, marks_);
    for (const int unit : state.units())
      line_->deposit(rank, unit, wire::kVaultState, unit, state.allocation(unit).fd(), state.allocation(unit).bytes());
  } catch (const Error& problem) {
    line_.reset();
    tell(std::string(problem.what()) + "; if this process dies its state is lost with it");
  }
}

void Keeping::mark(std::int64_t step) {
  for (const int unit : state_.units()) marks_.set(unit, step);
}

}  // namespace espalier::torchrt
