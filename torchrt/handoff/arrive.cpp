#include "torchrt/handoff/arrive.hpp"

#include <chrono>

#include "planner/core/error.hpp"
#include "torchrt/handoff/exchange.hpp"
#include "torchrt/handoff/gpu_reach.hpp"
#include "torchrt/learning_rate.hpp"

namespace espalier::torchrt {

namespace {

using Clock = std::chrono::steady_clock;

// Early messages go in this many slices. After each slice all ranks agree on whether to go on.
constexpr int kSlices = 16;
// How long to wait for the old generation's update on all of its ranks.
constexpr std::chrono::milliseconds kUpdate{2000};
// How an attempt to send early ends. The least of all ranks' values counts.
enum Attempt : int { too_slow, overtaken, sent };

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

Arrival::Arrival(RankState& state, World& world, Device& device, const Plan& before, const wire::GpuJobs& jobs,
                 AddressOf address_of)
    : Arrival(state, world, device,
              plan_handoff(state.config(), as_reached(before, device.kind(), jobs),
                           as_reached(state.plan(), device.kind(), jobs), device.kind(), device.adopts()),
              std::move(address_of), LostMemory{}) {}

Arrival::Arrival(RankState& state, World& world, Device& device, HandoffPlan plan, AddressOf address_of,
                 LostMemory lost)
    : state_(state),
      world_(world),
      device_(device),
      plan_(std::move(plan)),
      address_of_(std::move(address_of)),
      lost_(std::move(lost)),
      operations_(operations(plan_.transfer, world.rank())),
      messages_(message_operations(plan_.transfer, plan_.routes.new_world, world.rank())) {
  for (const Message& message : plan_.routes.old_world)
    if (message.to.rank == world.rank()) landings_.insert({message.receiver, message.to.unit});
  if (lost_.map || !state.config().handoff.early || !device.adopts()) return;
  early_.emplace(plan_.transfer, plan_.routes);
  if (!early_->any()) {
    early_.reset();
    return;
  }
  slices_ = early_->slices(messages_, kSlices);
  last_ = early_->last(messages_);
  early_copies_ = early_->copies(world.rank());
}

// Only the old generation's plan and this configuration tell the size of its memory, so it is
// checked.
void Arrival::check_size(const MemoryId& memory, std::size_t bytes) const {
  const int unit = is_gradient(memory.unit) ? gradient_of(memory.unit) : memory.unit;
  const StateLayout& state = plan_.transfer.shard({memory.old, memory.rank, unit}).state;
  const bool bitwise = state_.config().training.accuracy == Accuracy::bitwise;
  if (bytes != (unit == memory.unit ? state.bytes() : gradient_bytes(state.floats, bitwise)))
    throw Error(
        "hand-off: unit " + std::to_string(unit) +
        " has another size in the old generation; the generations must train the same model in the same precision");
}

// `expected_step` < 0: any step, because the old generation is still training.
FetchedState Arrival::fetch(const MemoryId& memory, std::int64_t expected_step) const {
  FetchedState fetched = fetch_state(address_of_(memory.old, memory.rank), {memory.unit});
  check_size(memory, fetched.bytes);
  if (expected_step >= 0 && fetched.step != expected_step)
    throw Error("hand-off: old rank " + std::to_string(memory.rank) + " stands after step " +
                std::to_string(fetched.step) + ", not " + std::to_string(expected_step));
  return fetched;
}

std::unique_ptr<Allocation> Arrival::map(const MemoryId& memory) const {
  if (memory.old && lost_.map) {
    std::unique_ptr<Allocation> left = lost_.map(memory);
    check_size(memory, left->bytes());
    return left;
  }
  FetchedState fetched = fetch(memory, -1);
  return device_.adopt(std::move(fetched.fd), fetched.bytes);
}

void Arrival::borrow(const MemoryId& memory) {
  std::unique_ptr<Allocation>& mapped = borrowed_[memory];
  if (!mapped) mapped = map(memory);
}

void Arrival::prepare() {
  for (const Adoption& adoption : operations_.adoptions) {
    state_.place(adoption.unit, map({true, adoption.old_rank, adoption.unit}));
    if (!lost_.map) gradients_[adoption.unit] = map({true, adoption.old_rank, gradient_of(adoption.unit)});
  }
  for (const int unit : operations_.fresh) state_.allocate(unit);
  for (const CopyOperation& copy : operations_.copies) borrow(copy.from);
  for (const MessageOperation& message : messages_)
    if (message.sends && message.memory.old) borrow(message.memory);
  if (early_) borrow_early();
  stages_ = std::make_unique<ExchangeStages>(device_, messages_, lost_.in_host);
  const std::size_t relayed = plan_.routes.relay_bytes[static_cast<std::size_t>(world_.rank())];
  if (relayed > 0) relay_ = device_.allocate(relayed, "espalier-relay");
}

// Maps the gradients that are sent in the pause, and the marks of the memories that are sent before
// it.
void Arrival::borrow_early() {
  for (const MessageOperation& message : last_)
    if (message.sends && message.memory.old && is_gradient(message.memory.unit)) borrow(message.memory);
  for (const std::vector<MessageOperation>& slice : slices_)
    for (const MessageOperation& message : slice) {
      const auto& [old, rank, unit] = message.memory;
      if (!message.sends || !old) continue;
      if (!marks_.has(rank)) {
        FetchedState fetched = fetch_state(address_of_(true, rank), {kMarks});
        marks_.add_rank(rank, std::move(fetched.fd), fetched.bytes);
      }
      marks_.add_unit(rank, unit);
    }
}

void Arrival::offer(StateServer& server) {
  for (const int unit : state_.units())
    server.offer({unit}, state_.allocation(unit).fd(), state_.allocation(unit).bytes());
  for (const auto& [unit, gradient] : gradients_) server.offer({gradient_of(unit)}, gradient->fd(), gradient->bytes());
  if (relay_) server.offer({kRelay}, relay_->fd(), relay_->bytes());
}

std::set<int> Arrival::adopts_gradients() const {
  std::set<int> units;
  for (const auto& [unit, gradient] : gradients_) units.insert(unit);
  return units;
}

void Arrival::release(StateServer& server) {
  for (auto& [unit, gradient] : gradients_) state_.place_gradient(unit, std::move(gradient));
  gradients_.clear();
  server.withdraw({kRelay});
  relay_.reset();
  stages_.reset();
  borrowed_.clear();
}

void Arrival::connect() {
  state_.transport().connect(peers(messages_));
  for (const CopyOperation& copy : operations_.late_copies)
    if (copy.from.rank != world_.rank()) borrow(copy.from);
  for (const CopyOperation& copy : early_copies_.last)
    if (copy.from.rank != world_.rank()) borrow(copy.from);
}

void Arrival::send_early(double seconds) {
  if (!early_ || seconds <= 0) return;
  // A user may have changed the update's settings since the old generation started.
  if (world_.minimum(marks_.updates_with(update_settings(state_.config().training)) ? 1 : 0) == 0) return;
  const Clock::time_point begin = Clock::now();
  std::int64_t step = -1;
  for (int tries = 0; tries < 2; ++tries)  // the second attempt begins right after a step
    if (try_early(step, seconds) != overtaken) break;
  early_seconds_ = seconds_since(begin);
}

// All ranks return the same. `step`: the step of the attempt before; it becomes the step of this
// attempt.
int Arrival::try_early(std::int64_t& step, double seconds) {
  marks_.wait_past(step, kUpdate);
  const std::int64_t newest = -world_.minimum(-static_cast<int>(marks_.newest()));
  if (newest <= step) return overtaken;
  step = newest;
  int attempt = marks_.wait(newest, kUpdate) ? sent : overtaken;
  const Clock::time_point begin = Clock::now();
  for (int done = 0;; ++done) {
    attempt = world_.minimum(attempt);
    if (attempt != sent || done == kSlices) break;
    // Memory that changes on its way arrives damaged.
    if (!run(slices_[static_cast<std::size_t>(done)]).empty() || !marks_.all_at(newest)) attempt = overtaken;
    if (done + 1 < kSlices && seconds_since(begin) * kSlices > seconds * (done + 1)) attempt = too_slow;
  }
  if (attempt != sent) return attempt;
  play(early_copies_.early);  // all ranks have agreed that the messages are in
  device_.wait();
  early_step_ = newest;
  return attempt;
}

void Arrival::receive(const std::vector<MessageOperation>& messages) {
  const std::vector<std::size_t> damaged = run(messages);
  if (!damaged.empty())
    throw Error("hand-off: what rank " + std::to_string(messages[damaged.front()].peer) + " sent of unit " +
                std::to_string(messages[damaged.front()].memory.unit) + " arrived damaged");
}

std::vector<std::size_t> Arrival::run(const std::vector<MessageOperation>& messages) {
  return exchange(
      state_.transport(), device_, messages, [this](const MemoryId& wanted) { return memory(wanted); }, *stages_);
}

// Repeats the old generation's update, from the state of the step before and the gradient. The
// result is the same bit for bit.
void Arrival::update_early(std::int64_t step) {
  for (const int unit : state_.units())
    if (early_->fills(world_.rank(), unit))
      state_.compute().update(unit, step, learning_rate(state_.config().training, step), 1);
  device_.wait();
}

// Asks each old rank once: its answer for one unit tells its step.
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
  if (is_gradient(wanted.unit)) return static_cast<char*>(state_.gradient(gradient_of(wanted.unit)).data());
  return static_cast<char*>((wanted.unit == kRelay ? *relay_ : state_.allocation(wanted.unit)).data());
}

// Copies memory that other ranks of the node have received or updated. All ranks must be done with
// that.
std::int64_t Arrival::copy_late(const std::vector<CopyOperation>& copies) {
  if (plan_.transfer.late_copies().empty()) return 0;
  world_.barrier();
  return play(copies);
}

std::int64_t Arrival::play(const std::vector<CopyOperation>& copies) {
  std::int64_t bytes = 0;
  for (const CopyOperation& copy : copies)
    for (const auto& [from, to] : copy.blocks) {
      device_.copy_runs(memory(copy.to) + to.at, to.stride, memory(copy.from) + from.at, from.stride, from.run,
                        from.count);
      bytes += static_cast<std::int64_t>(from.bytes());
    }
  device_.finish_copies();  // other ranks may read them next
  return bytes;
}

ArrivalReport Arrival::load(std::int64_t step, const std::function<void()>& wait) {
  ArrivalReport report;
  const auto timed = [&report](const char* phase, const auto& work) {
    const Clock::time_point begin = Clock::now();
    work();
    report.phases_ms[phase] += 1e3 * seconds_since(begin);
  };
  timed("check", [&] {
    if (!lost_.map) check_sources(step);
  });
  for (const Adoption& adoption : operations_.adoptions)
    report.adopted += static_cast<std::int64_t>(state_.allocation(adoption.unit).bytes());
  timed("copy", [&] { report.copied += play(operations_.copies); });
  const bool early = early_step_ >= 0 && early_step_ + 1 == step;
  const std::vector<MessageOperation>& messages = early ? last_ : messages_;
  const Halves parts = halves(messages);
  timed("send", [&] { receive(parts.own); });
  if (wait) timed("wait", wait);
  timed("check", [&] { check_landed(step); });
  timed("send", [&] { receive(parts.given); });
  if (early) {
    timed("copy", [&] { report.copied += copy_late(early_copies_.last); });
    timed("update", [&] { update_early(step); });
  }
  timed("copy", [&] { report.copied += copy_late(early ? early_copies_.late : operations_.late_copies); });
  for (const MessageOperation& message : messages)
    if (!message.sends) report.sent += static_cast<std::int64_t>(message.bytes);
  if (early_seconds_ > 0) report.phases_ms["early"] = 1e3 * early_seconds_;
  if (early)
    for (const std::vector<MessageOperation>& slice : slices_)
      for (const MessageOperation& message : slice)
        if (!message.sends) report.sent_early += static_cast<std::int64_t>(message.bytes);
  for (const Message& message : plan_.routes.old_world)
    if (message.to.rank == world_.rank()) report.sent += static_cast<std::int64_t>(message.piece.bytes);
  return report;
}

}  // namespace espalier::torchrt
