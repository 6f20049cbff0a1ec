#include "torchrt/handoff/leave.hpp"

#include <new>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"

namespace espalier::torchrt {

namespace {

// Null: the new rank has given up or was stopped.
std::unique_ptr<Allocation> map_guest(Device& device, const std::string& address, int unit, std::size_t bytes) {
  FetchedState fetched;
  try {
    fetched = fetch_state(address, {unit});
  } catch (const Error&) {
    return nullptr;
  }
  try {
    return device.adopt(std::move(fetched.fd), bytes);
  } catch (const DeviceError&) {
    throw;  // this rank's own GPU
  } catch (const MemoryError&) {
    throw;  // of this rank's GPU
  } catch (const Error&) {
    // Where memory ends with its maker, the maker may have ended meanwhile.
    if (device.adopts()) throw;
    return nullptr;
  }
}

}  // namespace

void Departure::prepare(const HandoffPlan& plan, Device& device, const std::function<std::string(int)>& address_of) {
  std::set<int> gone;  // new ranks that cannot load: each is waited for once
  for (const MessageOperation& message : messages_) {
    const MemoryId& memory = message.memory;
    if (message.sends || guests_.count(memory) != 0) continue;
    const std::size_t bytes = memory.unit == kRelay ? plan.routes.relay_bytes[static_cast<std::size_t>(memory.rank)]
                                                    : plan.transfer.shard(memory).state.bytes();
    std::unique_ptr<Allocation>& guest = guests_[memory];
    if (gone.count(memory.rank) == 0) guest = map_guest(device, address_of(memory.rank), memory.unit, bytes);
    if (!guest) gone.insert(memory.rank);
  }
  stages_ = std::make_unique<ExchangeStages>(device, messages_);
}

std::string Departure::give(RankState& state, World& world, Device& device, const wire::Switch& request,
                            const std::function<std::string(int)>& address_of, const std::function<void()>& stands) {
  const Plan before = as_reached(state.plan(), device.kind(), request.jobs);
  const Plan next = as_reached(request.next, device.kind(), request.jobs);
  if (!leaves_nodes(before, next)) return "";
  std::string problem;
  try {
    const HandoffPlan plan = plan_handoff(state.config(), before, next, device.kind(), device.adopts());
    // What torch keeps for later tensors, our stages and NCCL cannot have, and neither can the next generation on this
    // GPU. Where nothing leaves a node it is not worth a longer pause, and comes once `switched` is said
    // (Worker::stand()).
    if (device.kind() != DeviceKind::cpu) state.compute().release_memory();
    messages_ = message_operations(plan.transfer, plan.routes.old_world, world.rank());
    prepare(plan, device, address_of);
  } catch (const Error& error) {
    problem = error.what();
  } catch (const std::bad_alloc&) {
    problem = "no memory is left to give the state away";
  }
  if (world.minimum(problem.empty() ? 1 : 0) == 0) {
    stages_.reset();
    guests_.clear();
    return problem;
  }
  stands();
  const auto memory_of = [&](const MemoryId& memory) -> char* {
    if (memory.old) return static_cast<char*>(state.allocation(memory.unit).data());
    const std::unique_ptr<Allocation>& guest = guests_.at(memory);
    return guest ? static_cast<char*>(guest->data()) : nullptr;
  };
  state.transport().connect(peers(messages_));  // not earlier: only the `switch` tells the new plan
  const std::vector<std::size_t> damaged = exchange(state.transport(), device, messages_, memory_of, *stages_);
  stages_.reset();
  // The new rank then finds that the unit is not offered, and gives up.
  for (const std::size_t place : damaged) guests_.erase(messages_[place].memory);
  for (const auto& [memory, guest] : guests_)
    if (guest) server_.offer({memory.unit, memory.rank}, guest->fd(), guest->bytes());
  return "";
}

Departure::~Departure() {
  for (const auto& [memory, guest] : guests_) server_.withdraw({memory.unit, memory.rank});
}

}  // namespace espalier::torchrt
