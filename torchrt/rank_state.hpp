// One rank's share of one generation: its units' memory, and the engine that trains on it.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "torchrt/executor.hpp"
#include "torchrt/profiler/timed_group.hpp"

namespace espalier::torchrt {

// Collective where noted. One thread.
class RankState {
 public:
  // Throws Error when the plan does not suit the configuration or the world. `config` outlives it.
  RankState(const Config& config, const Plan& plan, World& world, Device& device);

  const Config& config() const { return config_; }
  const Plan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  const RankLayout& self() const { return layout_.ranks[static_cast<std::size_t>(world_.rank())]; }
  const std::vector<int>& units() const { return self().units; }
  const UnitSpec& spec(int unit) const { return specs_.at(unit); }
  StateLayout state_layout(int unit) const;

  // Memory for one unit: given from outside, or new and zero. Replaces what was there, also under a built engine.
  void place(int unit, std::unique_ptr<Allocation> allocation);
  void allocate(int unit);
  Allocation& allocation(int unit) { return *allocations_.at(unit); }
  // Of a built engine: gradient_bytes(). Between two steps what the last update used, clipped.
  Allocation& gradient(int unit) { return *gradients_.at(unit); }
  std::size_t gradient_bytes(int unit) const;

  // Starts to connect the ranks, in the background where the backend can. Collective.
  void connect() { fabric_ = make_fabric(world_, device_); }
  // Builds the engine on what is placed, after connect(); collective. The gradients of units `later` are placed before
  // the first step: until then they share memory that a rehearsal may fill.
  void build(const std::set<int>& later = {});
  void place_gradient(int unit, std::unique_ptr<Allocation> allocation);
  void rehearse(const Data& data) { executor_->rehearse(data); }
  Executor& executor() { return *executor_; }
  Compute& compute() { return *compute_; }
  Transport& transport() { return fabric_->transport(); }
  // Of a built engine: who sees its operations and its tensor-parallel sums from now on. Null: nobody, at no cost.
  void observe(OpObserver* operations, SumObserver* sums);
  // Of all weights of the model, the same on every rank and in every layout. Collective.
  std::uint64_t checksum();

 private:
  UnitView view(int unit);

  const Config& config_;
  Plan plan_;
  World& world_;
  Device& device_;
  Layout layout_;
  std::optional<Pace> pace_;
  std::map<int, UnitSpec> specs_;
  std::map<int, std::unique_ptr<Allocation>> allocations_, gradients_;
  std::unique_ptr<Allocation> shared_gradient_;  // of units whose own is not placed yet
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<TimedGroup> tensor_group_;
  std::unique_ptr<Group> replicas_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace espalier::torchrt
