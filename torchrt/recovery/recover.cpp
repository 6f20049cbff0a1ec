#include "torchrt/recovery/recover.hpp"

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/recovery/recovery_plan.hpp"

namespace espalier::torchrt {

namespace {

// Only rank 0 looks at the directory, so that all ranks get the same answer. A directory that
// cannot be read counts as empty; resuming from it will report the reason.
std::int64_t newest_checkpoint(const Config& config, World& world) {
  double newest = 0;
  if (world.rank() == 0) {
    newest = -1;
    try {
      if (!config.checkpoint.directory.empty())
        for (const std::int64_t step : checkpoint_steps(config.checkpoint.directory))
          newest = std::max(newest, static_cast<double>(step));
    } catch (const Error&) {
    }
  }
  world.sum({&newest, 1});
  return static_cast<std::int64_t>(newest);
}

}  // namespace

Recovery::Recovery(RankState& state, World& world, Device& device, const std::vector<LostGeneration>& lost, Plan after,
                   const std::function<void(const std::string&)>& tell)
    : state_(state), world_(world), device_(device), after_(std::move(after)) {
  std::set<std::string> silent;
  std::vector<Remains> remains;
  for (const LostGeneration& one : lost) {
    const Survivors& found = survivors_.emplace_back(world, device, one, silent, tell);
    const GenerationLayout layout{make_layout(one.plan, state.config().model.blocks()), state.config().training.zero1};
    remains.push_back({layout, found.left(), found.untouched(), one.copies_only, one.until});
  }
  choice_ = choose_source(remains, newest_checkpoint(state.config(), world));
  // All ranks have made the same choice: nobody needs what the GPUs still hold.
  if (choice_.origin != Origin::generation && device.kind() != DeviceKind::cpu)
    for (const Survivors& found : survivors_) found.discard_state(tell);
}

std::unique_ptr<Arrival> Recovery::arrival(AddressOf address_of) const {
  const LostGeneration& lost = source().lost();
  const Plan& before = choice_.origin == Origin::snapshot ? lost.copies : lost.plan;
  HandoffPlan plan = plan_recovery(state_.config(), before, after_, choice_, device_.kind());
  const bool in_host = choice_.origin == Origin::snapshot && device_.kind() != DeviceKind::cpu;
  return std::make_unique<Arrival>(state_, world_, device_, std::move(plan), std::move(address_of),
                                   LostMemory{[this](const MemoryId& memory) { return map(memory); }, in_host});
}

std::unique_ptr<Allocation> Recovery::map(const MemoryId& memory) const {
  const auto rank = static_cast<std::size_t>(memory.rank);
  UniqueFd fd = source().fetch(choice_.holder[rank], memory.rank, memory.unit, choice_.slot[rank]);
  std::size_t bytes = 0;
  for (const Held& held : source().left())
    if (held.holder == choice_.holder[rank] && held.rank == memory.rank && held.unit == memory.unit &&
        held.slot == choice_.slot[rank])
      bytes = held.bytes;
  if (choice_.origin == Origin::generation) return device_.adopt(std::move(fd), bytes);
  // A copy stays in host memory: a GPU that trains has no room for it beside the state itself.
  return make_cpu_device()->adopt(std::move(fd), bytes);
}

}  // namespace espalier::torchrt
