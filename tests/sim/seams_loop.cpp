// The product's clock, loop and side threads on virtual time. They replace planner/wire/{clock,loop,side_thread}.cpp.
#include "planner/wire/clock.hpp"
#include "planner/wire/side_thread.hpp"
#include "tests/sim/event_base.hpp"
#include "tests/sim/history.hpp"

namespace espalier::wire {

using sim::history;

namespace {
constexpr double kEpoch = 1.8e9;
}

std::chrono::steady_clock::time_point steady_now() {
  return std::chrono::steady_clock::time_point(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(1000 + history().timeline.now())));
}
double unix_seconds() { return kEpoch + history().timeline.now(); }

// ---- loop

struct Watch::Impl {
  Loop::Callback callback;
  event_base* base = nullptr;
  sim::Seconds period = 0;
  sim::Timeline::Ticket ticket = 0;
  int number = 0;
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (ticket != 0) history().timeline.cancel(ticket);
  }
};

namespace {

// A timer is a little late, so that either of two timers for one moment may be first.
void arm(const std::shared_ptr<Watch::Impl>& impl, sim::Seconds delay) {
  auto& timeline = history().timeline;
  const sim::Seconds late = history().random.real(0, 0.002);
  impl->ticket = timeline.at(timeline.now() + delay + late, impl->base->party, [weak = std::weak_ptr(impl)] {
    const auto self = weak.lock();
    if (!self) return;
    self->ticket = 0;
    const Loop::Callback callback = self->callback;  // the callback may destroy its Watch
    if (self->period > 0) arm(self, self->period);
    callback();
  });
}

sim::Seconds seconds(Loop::Milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

Loop::Loop() : base_(new event_base{history().born}) { base_->party->loop = this; }
Loop::~Loop() { delete base_; }

// The event has been handed to the process already: run() has nothing more to do.
void Loop::run() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}
void Loop::fail(std::exception_ptr failure) { failure_ = std::move(failure); }
void Loop::stop() { base_->party->stopped = stopped_ = true; }

Watch Loop::after(Milliseconds delay, Callback callback) {
  auto impl = std::make_shared<Watch::Impl>();
  impl->callback = std::move(callback);
  impl->base = base_;
  arm(impl, seconds(delay));
  return Watch(std::move(impl));
}
Watch Loop::every(Milliseconds period, Callback callback) {
  auto impl = std::make_shared<Watch::Impl>();
  impl->callback = std::move(callback);
  impl->base = base_;
  impl->period = seconds(period);
  arm(impl, impl->period);
  return Watch(std::move(impl));
}
Watch Loop::on_signal(int number, Callback callback) {
  for (auto& [job, process] : history().launchers)
    if (process.party == base_->party) process.signals.emplace(number, std::move(callback));
  auto impl = std::make_shared<Watch::Impl>();
  return Watch(std::move(impl));
}
// A deferred callback runs at the loop's next turn. Other events of this turn come first.
void Loop::defer(Callback callback) {
  auto& timeline = history().timeline;
  const sim::Seconds turn = history().random.chance(0.1) ? history().random.real(0, 0.001) : 0;
  timeline.at(timeline.now() + turn, base_->party, std::move(callback));
}

// ---- side threads: the work is done at once, its result comes later. The planner's decisions are made on one, so that
// jobs, connections and Slurm have changed when a decision is there.

struct SideThread::Shared {
  sim::PartyPtr party;
  std::size_t waiting = 0;
  sim::Seconds free_at = 0;  // when the work before is done
  bool stopping = false;
};

SideThread::SideThread(Loop& loop, std::size_t most, End, int) : shared_(std::make_shared<Shared>()), most_(most) {
  shared_->party = loop.base()->party;
}
SideThread::~SideThread() { shared_->stopping = true; }
bool SideThread::post(Work work) {
  if (shared_->waiting >= most_) return false;
  ++shared_->waiting;
  auto& timeline = history().timeline;
  auto& random = history().random;
  const sim::Seconds takes = random.chance(0.2) ? random.real(0.05, 3) : random.real(0.0005, 0.01);
  shared_->free_at = std::max(shared_->free_at, timeline.now()) + takes;
  timeline.at(shared_->free_at, shared_->party, [shared = shared_, result = work()] {
    --shared->waiting;
    if (!shared->stopping && result) result();
  });
  return true;
}

}  // namespace espalier::wire
