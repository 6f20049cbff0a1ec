#include "torchrt/rank_state.hpp"

#include <algorithm>
#include <array>

#include "planner/core/error.hpp"
#include "torchrt/schedule/must_fit.hpp"
#include "torchrt/schedule/must_run.hpp"
#include "torchrt/schedule/sent_lists.hpp"
#include "torchrt/schedule_options.hpp"
#include "torchrt/weights_checksum.hpp"

namespace espalier::torchrt {

RankState::RankState(const Config& config, const Plan& plan, World& world, Device& device)
    : config_(config), plan_(plan), world_(world), device_(device), layout_(make_layout(plan, config.model.blocks())) {
  check(plan_, layout_);
  if (config.device.imitated() && device.kind() != DeviceKind::cpu)
    throw Error(
        "[device]: slows a CPU down and is not for GPUs; remove it, or train with espalier-train instead of "
        "espalier-train-cuda");
  time_device();
  for (const int unit : units()) specs_.emplace(unit, unit_spec(config.model, unit, self().tp, self().tp_rank));
}

void RankState::check(const Plan& plan, const Layout& layout) const {
  if (plan.global_batch != config_.training.global_batch)
    throw Error("plan: has a global batch of " + std::to_string(plan.global_batch) + ", " + config_.path + " says " +
                std::to_string(config_.training.global_batch) + "; the global batch never changes");
  if (plan.gpu_count() != world_.size())
    throw Error("plan: has " + std::to_string(plan.gpu_count()) + " GPUs, the world has " +
                std::to_string(world_.size()) + " ranks; start one rank per GPU");
  const ScheduleOptions options = schedule_options(config_, plan);
  order_of_work(layout, options);  // throws where the schedule does not suit the plan
  if (options.given && fits(*options.given, layout)) {
    try {
      must_run(options, layout, messages_of(device_.kind()));
    } catch (const Error& error) {
      throw Error(std::string("--schedule: the file's lists cannot run: ") + error.what() + "; change them");
    }
  }
  // All ranks check all stages, so that they refuse together a plan that one of them cannot run.
  for (const StageLayout& stage : layout.stages) unit_spec(config_.model, 1, stage.tp, 0);
  if (!config_.device.imitated()) return;
  for (const RankLayout& rank : layout.ranks)
    for (const int unit : rank.units) config_.device.times_of(config_.model, unit, rank.tp, rank.samples);
}

void RankState::time_device() {
  device_times_.clear();
  if (!config_.device.imitated()) return;
  for (const int unit : units())
    device_times_[unit] = config_.device.times_of(config_.model, unit, self().tp, self().samples);
}

StateLayout RankState::state_layout(int unit) const {
  const bool divided = config_.training.zero1;
  return torchrt::state_layout(spec(unit), config_.training.dtype, divided ? self().replicas : 1,
                               divided ? self().replica : 0);
}

void RankState::place(int unit, std::unique_ptr<Allocation> allocation) {
  ESPALIER_INVARIANT(allocation->bytes() == state_layout(unit).bytes());
  std::unique_ptr<Allocation>& slot = allocations_[unit];
  const std::unique_ptr<Allocation> before = std::exchange(slot, std::move(allocation));
  if (compute_) compute_->rebind(view(unit));
}

void RankState::allocate(int unit) {
  place(unit, device_.allocate(state_layout(unit).bytes(), "espalier-unit" + std::to_string(unit)));
}

std::size_t RankState::gradient_bytes(int unit) const {
  return torchrt::gradient_bytes(spec(unit).floats, config_.training.accuracy == Accuracy::bitwise);
}

void RankState::place_gradient(int unit, std::unique_ptr<Allocation> allocation) {
  ESPALIER_INVARIANT(compute_ != nullptr && allocation->bytes() == gradient_bytes(unit));
  gradients_[unit] = std::move(allocation);
  compute_->rebind(view(unit));
  if (gradients_.size() == units().size()) shared_gradient_.reset();
}

void RankState::build(const std::set<int>& later) {
  const StageLayout& stage = layout_.stages[static_cast<std::size_t>(self().stage)];
  std::vector<int> tensor_members, replica_members;
  for (int t = 0; t < stage.tp; ++t) tensor_members.push_back(stage.rank(self().replica, t));
  for (int j = 0; j < stage.replicas; ++j) replica_members.push_back(stage.rank(j, self().tp_rank));
  ESPALIER_INVARIANT(fabric_ != nullptr);
  if (auto group = fabric_->group(tensor_members)) tensor_group_ = std::make_unique<TimedGroup>(std::move(group));
  replicas_ = fabric_->group(replica_members);

  std::size_t most = 0;
  for (const int unit : later) most = std::max(most, gradient_bytes(unit));
  if (most > 0) shared_gradient_ = device_.allocate(most, "espalier-gradients");
  for (const int unit : units())
    if (later.count(unit) == 0)
      gradients_[unit] = device_.allocate(gradient_bytes(unit), "espalier-gradient" + std::to_string(unit));
  if (config_.training.given_schedule) agree_on_lists();
  build_engine();
}

void RankState::build_engine() {
  const StageLayout& stage = layout_.stages[static_cast<std::size_t>(self().stage)];
  std::vector<UnitView> views;
  for (const int unit : units()) views.push_back(view(unit));
  compute_ = std::make_unique<Compute>(config_, layout_, world_.rank(), device_, tensor_group_.get(), std::move(views));
  Engine engine{config_,
                layout_,
                schedule_options(config_, plan_),
                world_,
                *fabric_,
                device_,
                *compute_,
                tensor_group_.get(),
                replicas_.get(),
                {},
                device_times_};
  if (config_.training.zero1 && stage.replicas > 1)
    for (const int unit : units())
      for (int j = 0; j < stage.replicas; ++j)
        engine.parts[unit].push_back(zero_part(spec(unit).floats, stage.replicas, j));
  executor_ = std::make_unique<Executor>(std::move(engine));
}

std::string RankState::unfit_in_place(const Plan& plan) const {
  if (const auto broken = validate(plan, config_.model.blocks()); !broken.empty()) return broken.front();
  if (!keeps_places(plan_, plan)) return "state would have to move for this plan";
  try {
    check(plan, make_layout(plan, config_.model.blocks()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void RankState::replan(const Plan& plan) {
  ESPALIER_INVARIANT(executor_ != nullptr && shared_gradient_ == nullptr && keeps_places(plan_, plan));
  observe(nullptr, nullptr);
  executor_.reset();  // it refers to the layout
  compute_.reset();
  // Torch keeps the memory of the micro-batches before, which have other sizes, and that of the engine's own tensors.
  // Before the new engine's first tensors: a block in which one of them lies cannot be given back.
  release_kept_memory(device_);
  plan_ = plan;
  layout_ = make_layout(plan_, config_.model.blocks());
  time_device();
  build_engine();
  agree_on_lists();
  executor_->connect();
}

// Ranks with different lists would wait for each other for ever.
void RankState::agree_on_lists() {
  const int own = fingerprint(order_of_work(layout_, schedule_options(config_, plan_)));
  const int least = world_.minimum(own), most = -world_.minimum(-own);
  if (least != most)
    throw Error(
        "schedule: the ranks have different lists for the same plan; is the file of --schedule the same on all nodes?");
}

UnitView RankState::view(int unit) {
  const auto own = gradients_.find(unit);
  return {&spec(unit), state_layout(unit), allocation(unit).data(),
          (own == gradients_.end() ? shared_gradient_ : own->second)->data()};
}

void RankState::observe(OpObserver* operations, SumObserver* sums) { executor_->observe(operations, sums); }

std::uint64_t RankState::checksum() {
  std::uint64_t mine = 0;
  for (const int unit : units()) {
    if (self().replica > 0) break;
    const StateLayout state = state_layout(unit);
    std::vector<char> parameters(state.parameter_bytes());
    device_.to_host(parameters.data(), allocation(unit).data(), parameters.size());
    mine += weights_checksum(spec(unit), state.dtype, parameters.data());
  }
  // Sums of 16-bit pieces are exact.
  std::array<double, 4> pieces{};
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = static_cast<double>((mine >> (16 * i)) & 0xffffu);
  world_.sum(pieces);
  std::uint64_t whole = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) whole += static_cast<std::uint64_t>(pieces[i]) << (16 * i);
  return whole;
}

}  // namespace espalier::torchrt
