#include "torchrt/handoff/arrive.hpp"

#include <chrono>

#include "planner/core/error.hpp"
#include "torchrt/handoff/exchange.hpp"

namespace espalier::torchrt {

Arrival::Arrival(RankState& state, World& world, Device& device, const Plan& before, AddressOf address_of)
    : Arrival(state, world, device, plan_handoff(state.config(), before, state.plan(), device.kind(), device.adopts()),
              std::move(address_of), nullptr) {}

Arrival::Arrival(RankState& state, World& world, Device& device, HandoffPlan plan, AddressOf address_of,
                 MapLost map_lost)
    : state_(state),
      world_(world),
      device_(device),
      plan_(std::move(plan)),
      address_of_(std::move(address_of)),
      map_lost_(std::move(map_lost)),
      operations_(operations(plan_.transfer, world.rank())),
      messages_(message_operations(plan_.transfer, plan_.routes.new_world, world.rank())) {
  for (const Message& message : plan_.routes.old_world)
    if (message.to.rank == world.rank()) landings_.insert({message.receiver, message.to.unit});
}

// `expected_step` < 0: any, the old generation is still training.
FetchedState Arrival::fetch(const MemoryId& memory, std::int64_t expected_step) const {
  FetchedState fetched = fetch_state(address_of_(memory.old, memory.rank), {memory.unit});
  if (fetched.bytes != plan_.transfer.shard(memory).state.bytes())
    throw Error(
        "hand-off: unit " + std::to_string(memory.unit) +
        " has another size in the old generation; the generations must train the same model in the same precision");
  if (expected_step >= 0 && fetched.step != expected_step)
    throw Error("hand-off: old rank " + std::to_string(memory.rank) + " stands after step " +
                std::to_string(fetched.step) + ", not " + std::to_string(expected_step));
  return fetched;
}

std::unique_ptr<Allocation> Arrival::map(const MemoryId& memory) const {
  if (memory.old && map_lost_) return map_lost_(memory);
  FetchedState fetched = fetch(memory, -1);
  return device_.adopt(std::move(fetched.fd), fetched.bytes);
}

void Arrival::borrow(const MemoryId& memory) {
  std::unique_ptr<Allocation>& mapped = borrowed_[memory];
  if (!mapped) mapped = map(memory);
}

void Arrival::prepare() {
  for (const Adoption& adoption : operations_.adoptions)
    state_.place(adoption.unit, map({true, adoption.old_rank, adoption.unit}));
  for (const int unit : operations_.fresh) state_.allocate(unit);
  for (const CopyOperation& copy : operations_.copies) borrow(copy.from);
  for (const MessageOperation& message : messages_)
    if (message.sends && message.memory.old) borrow(message.memory);
  stages_ = std::make_unique<ExchangeStages>(device_, messages_);
  const std::size_t relayed = plan_.routes.relay_bytes[static_cast<std::size_t>(world_.rank())];
  if (relayed > 0) relay_ = device_.allocate(relayed, "espalier-relay");
}

void Arrival::offer(StateServer& server) {
  for (const int unit : state_.units())
    server.offer({unit}, state_.allocation(unit).fd(), state_.allocation(unit).bytes());
  if (relay_) server.offer({kRelay}, relay_->fd(), relay_->bytes());
}

void Arrival::release(StateServer& server) {
  server.withdraw({kRelay});
  relay_.reset();
  stages_.reset();
  borrowed_.clear();
}

void Arrival::connect() {
  state_.transport().connect(peers(messages_));
  for (const CopyOperation& copy : operations_.late_copies)
    if (copy.from.rank != world_.rank()) borrow(copy.from);
}

// One question per old rank: a unit of each shows where its generation stands.
void Arrival::check_sources(std::int64_t step) {
  std::map<int, MemoryId> asked;
  for (const Adoption& adoption : operations_.adoptions)
    asked[adoption.old_rank] = {true, adoption.old_rank, adoption.unit};
  for (const auto& [memory, allocation] : borrowed_)
    if (memory.old) asked[memory.rank] = memory;
  for (const auto& [rank, memory] : asked) fetch(memory, step);
}

void Arrival::check_landed(std::int64_t step) {
  for (const auto& [lander, unit] : landings_)
    if (fetch_state(address_of_(true, lander), {unit, world_.rank()}).step != step)
      throw Error("hand-off: old rank " + std::to_string(lander) + " has not written unit " + std::to_string(unit) +
                  " as it is after step " + std::to_string(step));
}

char* Arrival::memory(const MemoryId& wanted) {
  const auto borrowed = borrowed_.find(wanted);
  if (borrowed != borrowed_.end()) return static_cast<char*>(borrowed->second->data());
  ESPALIER_INVARIANT(!wanted.old && wanted.rank == world_.rank());
  return static_cast<char*>((wanted.unit == kRelay ? *relay_ : state_.allocation(wanted.unit)).data());
}

std::int64_t Arrival::play(const std::vector<CopyOperation>& copies) {
  std::int64_t bytes = 0;
  for (const CopyOperation& copy : copies)
    for (const auto& [from, to] : copy.blocks) {
      device_.copy_runs(memory(copy.to) + to.at, to.stride, memory(copy.from) + from.at, from.stride, from.run,
                        from.count);
      bytes += static_cast<std::int64_t>(from.bytes());
    }
  return bytes;
}

ArrivalReport Arrival::load(std::int64_t step) {
  ArrivalReport report;
  const auto timed = [&report](const char* phase, const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    report.phases_ms[phase] +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  timed("check", [&] {
    if (!map_lost_) check_sources(step);
    check_landed(step);
  });
  for (const Adoption& adoption : operations_.adoptions)
    report.adopted += static_cast<std::int64_t>(state_.allocation(adoption.unit).bytes());
  timed("copy", [&] { report.copied += play(operations_.copies); });
  timed("send", [&] {
    const auto memory_of = [this](const MemoryId& wanted) { return memory(wanted); };
    const std::vector<std::size_t> damaged = exchange(state_.transport(), device_, messages_, memory_of, *stages_);
    if (!damaged.empty())
      throw Error("hand-off: what rank " + std::to_string(messages_[damaged.front()].peer) + " sent of unit " +
                  std::to_string(messages_[damaged.front()].memory.unit) + " arrived damaged");
    // What others of the node received is copied when it is there.
    if (!plan_.transfer.late_copies().empty()) world_.barrier();
  });
  timed("copy", [&] { report.copied += play(operations_.late_copies); });
  for (const MessageOperation& message : messages_)
    if (!message.sends) report.sent += static_cast<std::int64_t>(message.bytes);
  for (const Message& message : plan_.routes.old_world)
    if (message.to.rank == world_.rank()) report.sent += static_cast<std::int64_t>(message.piece.bytes);
  return report;
}

}  // namespace espalier::torchrt
