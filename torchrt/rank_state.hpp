// One rank's share of one generation: its units' memory, and the engine that trains on it.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "torchrt/executor.hpp"
#include "torchrt/profiler/timed_group.hpp"

namespace espalier::torchrt {

// Collective where noted. For one thread.
class RankState {
 public:
  // Throws Error when the plan does not suit the configuration or the world. `config` must outlive
  // it.
  RankState(const Config& config, const Plan& plan, World& world, Device& device);

  const Config& config() const { return config_; }
  const Plan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  const RankLayout& self() const { return layout_.ranks[static_cast<std::size_t>(world_.rank())]; }
  const std::vector<int>& units() const { return self().units; }
  const UnitSpec& spec(int unit) const { return specs_.at(unit); }
  StateLayout state_layout(int unit) const;

  // Give a unit its memory: from outside, or new and zero. It replaces earlier memory, also when
  // the engine is built.
  void place(int unit, std::unique_ptr<Allocation> allocation);
  void allocate(int unit);
  Allocation& allocation(int unit) { return *allocations_.at(unit); }
  // Needs a built engine. gradient_bytes() long. Between two steps it holds the gradient that the
  // last update used, clipped.
  Allocation& gradient(int unit) { return *gradients_.at(unit); }
  std::size_t gradient_bytes(int unit) const;

  // Starts to connect the ranks, in the background where the backend can. Collective.
  void connect() { fabric_ = make_fabric(world_, device_, config_.training.accuracy == Accuracy::bitwise); }
  // Builds the engine on the placed memory, after connect(). Collective. The gradients of the units
  // `later` are placed before the first step. Until then these units share memory, which a
  // rehearsal may fill.
  void build(const std::set<int>& later = {});
  // Why the engine cannot go on with `plan` after a step; empty: it can. All ranks say the same.
  std::string unfit_in_place(const Plan& plan) const;
  // Builds the engine anew for a plan that fits so. The state stays where it is. What the executor was told of
  // observers, marks and work beside training is forgotten. All ranks call it at the same boundary.
  void replan(const Plan& plan);
  void place_gradient(int unit, std::unique_ptr<Allocation> allocation);
  void rehearse(const Data& data) { executor_->rehearse(data); }
  Executor& executor() { return *executor_; }
  Compute& compute() { return *compute_; }
  Transport& transport() { return fabric_->transport(); }
  // Needs a built engine. The observers see its operations and its tensor-parallel sums from now
  // on. Null: no observer and no cost.
  void observe(OpObserver* operations, SumObserver* sums);
  // Checksum of all weights of the model, the same on every rank and in every layout. Collective.
  std::uint64_t checksum();

 private:
  UnitView view(int unit);
  void check(const Plan& plan, const Layout& layout) const;
  void time_device();
  void build_engine();
  void agree_on_lists();

  const Config& config_;
  Plan plan_;
  World& world_;
  Device& device_;
  Layout layout_;
  std::map<int, UnitTimes> device_times_;  // by unit; empty: full speed
  std::map<int, UnitSpec> specs_;
  std::map<int, std::unique_ptr<Allocation>> allocations_, gradients_;
  // Of the units whose own gradient is not yet placed.
  std::unique_ptr<Allocation> shared_gradient_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<TimedGroup> tensor_group_;
  std::unique_ptr<Group> replicas_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace espalier::torchrt
