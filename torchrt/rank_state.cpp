#include "torchrt/rank_state.hpp"

#include "planner/core/error.hpp"
#include "torchrt/model/initialise.hpp"

namespace espalier::torchrt {

RankState::RankState(const Config& config, const Plan& plan, World& world, Device& device, const Data& data)
    : config_(config), plan_(plan), world_(world), device_(device), data_(data), specs_(unit_specs(config.model)) {
  if (plan.global_batch != config.training.global_batch)
    throw Error("plan: has a global batch of " + std::to_string(plan.global_batch) + ", " + config.path + " says " +
                std::to_string(config.training.global_batch) + "; the global batch never changes");
  if (plan.gpu_count() != world.size())
    throw Error("plan: has " + std::to_string(plan.gpu_count()) + " GPUs, the world has " +
                std::to_string(world.size()) + " ranks; start one rank per GPU");
  schedule_ = make_schedule(make_layout(plan, config.model.layers), config.training.schedule);
}

void RankState::place(int unit, std::unique_ptr<Allocation> allocation) {
  ESPALIER_INVARIANT(allocation->bytes() == spec(unit).state_bytes());
  std::unique_ptr<Allocation>& slot = allocations_[unit];
  const std::unique_ptr<Allocation> before = std::exchange(slot, std::move(allocation));
  if (compute_) compute_->rebind(view(unit));
}

void RankState::allocate(int unit) {
  place(unit, device_.allocate(spec(unit).state_bytes(), "espalier-unit" + std::to_string(unit)));
}

void RankState::initialise() {
  for (const int unit : units()) {
    std::vector<float> parameters(spec(unit).floats, 0.0F);
    torchrt::initialise(spec(unit), config_.training.seed, parameters);
    device_.from_host(allocation(unit).data(), parameters.data(), parameters.size() * sizeof(float));
  }
}

void RankState::build() {
  std::vector<UnitView> views;
  for (const int unit : units()) views.push_back(view(unit));
  const RankLayout& mine = layout().ranks[static_cast<std::size_t>(world_.rank())];
  compute_ = std::make_unique<Compute>(config_, mine, device_, std::move(views));
  executor_ = std::make_unique<Executor>(config_, schedule_, world_, *compute_, data_);
}

UnitView RankState::view(int unit) {
  float* start = static_cast<float*>(allocation(unit).data());
  const std::size_t floats = spec(unit).floats;
  return {&spec(unit), start, start + floats, start + 2 * floats};
}

}  // namespace espalier::torchrt
