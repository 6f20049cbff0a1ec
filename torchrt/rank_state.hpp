// One rank's share of one generation: its units' memory, and the engine that trains on it.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "torchrt/executor.hpp"

namespace espalier::torchrt {

// Collective where noted. One thread.
class RankState {
 public:
  // Throws Error when the plan does not suit the configuration or the world.
  RankState(const Config& config, const Plan& plan, World& world, Device& device, const Data& data);

  const Plan& plan() const { return plan_; }
  const Layout& layout() const { return schedule_.layout; }
  const std::vector<int>& units() const { return layout().ranks[static_cast<std::size_t>(world_.rank())].units; }
  const UnitSpec& spec(int unit) const { return specs_[static_cast<std::size_t>(unit)]; }

  // Memory for one unit: given from outside, or new and zero. Replaces what was there, also under a built engine.
  void place(int unit, std::unique_ptr<Allocation> allocation);
  void allocate(int unit);
  // Random initial parameters and zero moments for every unit; all are placed.
  void initialise();
  Allocation& allocation(int unit) { return *allocations_.at(unit); }

  // Builds the engine on what is placed; collective.
  void build();
  void rehearse() { executor_->rehearse(); }
  StepOutcome step(std::int64_t step, const SwitchQuestion& switch_requested) {
    return executor_->run(step, switch_requested);
  }

 private:
  UnitView view(int unit);

  const Config& config_;
  Plan plan_;
  World& world_;
  Device& device_;
  const Data& data_;
  std::vector<UnitSpec> specs_;
  Schedule schedule_;
  std::map<int, std::unique_ptr<Allocation>> allocations_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace espalier::torchrt
