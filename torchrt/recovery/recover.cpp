#include "torchrt/recovery/recover.hpp"

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/recovery/recovery_plan.hpp"

namespace espalier::torchrt {

namespace {

// A directory that cannot be read counts as empty; resuming from it will report the reason.
std::int64_t newest_by_name(const std::string& directory, std::int64_t limit, const RankSum& ranks) {
  if (directory.empty()) return -1;
  try {
    return newest_checkpoint(directory, limit, ranks);
  } catch (const Error&) {  // on all ranks
    return -1;
  }
}

}  // namespace

Recovery::Recovery(RankState& state, World& world, Device& device, const std::vector<LostGeneration>& lost, Plan after,
                   const std::function<void(const std::string&)>& tell)
    : state_(state), world_(world), device_(device), after_(std::move(after)) {
  std::set<std::string> silent;
  std::vector<Remains> remains;
  for (const LostGeneration& one : lost) {
    const Survivors& found = survivors_.emplace_back(world, device, one, silent, tell);
    const GenerationLayout layout{make_memory_layout(one.plan, state.config().model.blocks()),
                                  state.config().training.zero1};
    remains.push_back({layout, found.left(), found.untouched(), one.copies_only, one.until});
  }
  choose(remains, tell);
  // All ranks have made the same choice: nobody needs what the GPUs still hold.
  if (choice_.origin != Origin::generation && device.kind() != DeviceKind::cpu && !may_be_completed(!silent.empty()))
    for (const Survivors& found : survivors_) found.discard_state(tell);
  if (world.rank() == 0) set_aside(state.config().checkpoint.directory, damaged_, tell);
}

// A vault that does not answer now may answer the next attempt, and what it keeps may complete what the others keep. So
// the first attempt after a loss lets nothing go: it may yet fail. Where it fails for want of the memory that this
// takes, the attempt after it lets all go. Collective.
bool Recovery::may_be_completed(bool silent) {
  if (world_.minimum(silent ? 0 : 1) == 1) return false;
  const LostGeneration& lost = survivors_.front().lost();
  return lost.asker == lost.generation + 1;
}

// Whether the newest checkpoint is good is looked at only where copies in memory could serve in its place: to read it
// takes long, and find_resumption() looks at what is read in the end.
void Recovery::choose(const std::vector<Remains>& remains, const std::function<void(const std::string&)>& tell) {
  const Config& config = state_.config();
  const RankSum ranks{world_.rank(), world_.size(), [this](double value) {
                        world_.sum({&value, 1});
                        return value;
                      }};
  const bool copies = choose_source(remains, -1).origin == Origin::snapshot;
  for (std::int64_t limit = INT64_MAX;;) {
    const std::int64_t newest = newest_by_name(config.checkpoint.directory, limit, ranks);
    choice_ = choose_source(remains, newest);
    if (choice_.origin != Origin::checkpoint || !copies) return;
    const CheckpointIs found = look_at_checkpoint(config, newest, ranks, tell, "; what else is left is looked at");
    if (found == CheckpointIs::good) return;
    if (found == CheckpointIs::damaged) damaged_.push_back(newest);  // one that cannot be read now keeps its name
    limit = newest;
  }
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
