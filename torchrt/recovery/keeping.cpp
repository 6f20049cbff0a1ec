#include "torchrt/recovery/keeping.hpp"

#include "planner/core/error.hpp"
#include "torchrt/learning_rate.hpp"

namespace espalier::torchrt {

Keeping::Keeping(const std::string& vault, int generation, int rank, RankState& state, const Device& device,
                 int more_marks, std::function<void(const std::string&)> tell)
    : state_(state),
      no_vault_(vault.empty()),
      marks_(state.layout().units + more_marks, update_settings(state.config().training)),
      tell_(std::move(tell)) {
  if (vault.empty()) return;
  try {
    line_.emplace(vault, generation, rank, marks_);
  } catch (const Error& problem) {
    tell_(std::string(problem.what()) + "; if this process dies its state is lost with it");
  }
  if (device.adopts())
    for (const int unit : state.units()) deposit(rank, unit, wire::kVaultState, unit, state.allocation(unit));
}

void Keeping::deposit(int rank, int unit, int slot, int mark, const Allocation& memory) {
  if (!line_) return;
  try {
    line_->deposit(rank, unit, slot, mark, memory.fd(), memory.bytes());
  } catch (const Error& problem) {
    line_.reset();
    tell_(std::string(problem.what()) + "; if this process dies its state is lost with it");
  }
}

void Keeping::mark(std::int64_t step) {
  for (const int unit : state_.units()) marks_.set(unit, step);
}

}  // namespace espalier::torchrt
