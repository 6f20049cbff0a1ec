// Virtual time. Parties (processes) have events, and the seed decides their one order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace espalier::wire {
class Loop;
}

namespace espalier::sim {

using Seconds = double;
using Callback = std::function<void()>;

// Gives the same numbers on every machine, because it uses no std:: distribution.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double real(double low, double high) { return low + (high - low) * (static_cast<double>(engine_() >> 11) * 0x1p-53); }
  int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }
  bool chance(double probability) { return real(0, 1) < probability; }

 private:
  std::mt19937_64 engine_;
};

// A process. Its events are dropped if it is dead, and wait while it stands still.
struct Party {
  std::string name, node;
  bool alive = true;
  Seconds stands_until = 0;
  wire::Loop* loop = nullptr;                // null: the process has none
  bool stopped = false;                      // its loop was told to stop
  std::function<void(const Callback&)> run;  // carries out an event; empty: the event is just called
};
using PartyPtr = std::shared_ptr<Party>;

class Timeline {
 public:
  using Ticket = std::uint64_t;
  // `party` null: an event of the surroundings. Of two events for one time, the one asked for first comes first.
  Ticket at(Seconds when, const PartyPtr& party, Callback callback);
  void cancel(Ticket ticket);
  bool step();  // carries out the next event; false: there is none
  Seconds now() const { return now_; }
  long steps() const { return steps_; }

 private:
  struct Entry {
    Seconds when;
    Ticket ticket;
    std::uint32_t slot;
    bool operator<(const Entry& other) const { return when != other.when ? when > other.when : ticket > other.ticket; }
  };
  struct Slot {
    Ticket ticket = 0;
    PartyPtr party;
    Callback callback;
  };
  void release(std::uint32_t slot);

  Seconds now_ = 0;
  long steps_ = 0;
  std::uint64_t last_ = 0;
  std::priority_queue<Entry> queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace espalier::sim
