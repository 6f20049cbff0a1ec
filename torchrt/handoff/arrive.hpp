// The new generation's half of a hand-off.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "torchrt/comm/world.hpp"
#include "torchrt/handoff/exchange.hpp"
#include "torchrt/handoff/handoff_plan.hpp"
#include "torchrt/handoff/source_marks.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer/early.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

struct ArrivalReport {
  std::int64_t adopted = 0, copied = 0, sent = 0;  // bytes; sent: to this rank, from other nodes
  std::int64_t sent_early = 0;                     // likewise, by send_early()
  std::map<std::string, double> phases_ms;         // of load(): check, copy, send, wait, update; and early, before
};

// The state socket of a rank of the old or of the new generation.
using AddressOf = std::function<std::string(bool old, int rank)>;

// Maps memory of the old generation when its ranks are gone.
using MapLost = std::function<std::unique_ptr<Allocation>(const MemoryId&)>;

// prepare(), offer(), connect() and send_early() while the old generation still trains, load() at its boundary. Nothing
// of the old generation is written. Throws Error.
class Arrival {
 public:
  // Throws Error, before anything has changed, where the hand-off is not possible: see plan_handoff().
  Arrival(RankState& state, World& world, Device& device, const Plan& before, AddressOf address_of);
  // From a generation that is lost: nobody of it is asked anything.
  Arrival(RankState& state, World& world, Device& device, HandoffPlan plan, AddressOf address_of, MapLost map_lost);
  // Every unit of the rank is placed afterwards, in its final memory; and what others hold of it in the old generation
  // is mapped.
  void prepare();
  // What others of the node write to or read from: `server` offers it from now on.
  void offer(StateServer& server);
  // Connects the ranks that will exchange messages, and maps what others of the node receive. All ranks have offered
  // theirs. Collective, over an engine that is built.
  void connect();
  // Sends what can be (transfer/early.hpp), when that takes less than `seconds`, and returns within some seconds more
  // than twice that. The old generation is not asked to wait: what it overtakes is sent again, once, and after that in
  // the pause, as is everything when load() is of another step than the next. Collective.
  void send_early(double seconds);
  // Collective, over an engine that is built. Checks that every source stands after `step`. `wait` returns when the old
  // generation has given what leaves its nodes: until then what else moves is taken. Empty: it has.
  ArrivalReport load(std::int64_t step, const std::function<void()>& wait);
  // Units whose gradients are the old generation's memory, as their state is. They are placed by release(): until the
  // commit that generation may train on.
  std::set<int> adopts_gradients() const;
  // After the commit; the object is done with. What only the hand-off needed is not on offer any more.
  void release(StateServer& server);

 private:
  void check_size(const MemoryId& memory, std::size_t bytes) const;
  FetchedState fetch(const MemoryId& memory, std::int64_t expected_step) const;
  std::unique_ptr<Allocation> map(const MemoryId& memory) const;
  void borrow(const MemoryId& memory);
  void check_sources(std::int64_t step);
  void check_landed(std::int64_t step);
  char* memory(const MemoryId& wanted);
  void borrow_early();
  std::int64_t copy_late(const std::vector<CopyOperation>& copies);
  int try_early(std::int64_t& step, double seconds);
  std::vector<std::size_t> run(const std::vector<MessageOperation>& messages);
  void receive(const std::vector<MessageOperation>& messages);
  void update_early(std::int64_t step);
  std::int64_t play(const std::vector<CopyOperation>& copies);

  RankState& state_;
  World& world_;
  Device& device_;
  HandoffPlan plan_;
  AddressOf address_of_;
  MapLost map_lost_;  // empty: the old generation is there
  RankOperations operations_;
  std::vector<MessageOperation> messages_;
  std::set<std::pair<int, int>> landings_;  // old ranks that write into this rank's memory, and units (or kRelay)
  std::unique_ptr<Allocation> relay_;
  std::unique_ptr<ExchangeStages> stages_;
  std::map<MemoryId, std::unique_ptr<Allocation>> borrowed_;
  std::map<int, std::unique_ptr<Allocation>> gradients_;  // adopted, by unit

  std::optional<EarlyPlan> early_;  // there is something to send early
  std::vector<std::vector<MessageOperation>> slices_;
  std::vector<MessageOperation> last_;  // in place of messages_
  EarlyCopies early_copies_;            // in place of operations_.late_copies
  SourceMarks marks_;
  std::int64_t early_step_ = -1;  // whose state has been sent; -1: none has
  double early_seconds_ = 0;      // that send_early() took
};

}  // namespace espalier::torchrt
