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
#include "torchrt/handoff/gpu_reach.hpp"
#include "torchrt/handoff/handoff_plan.hpp"
#include "torchrt/handoff/source_marks.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer/early.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

struct ArrivalReport {
  std::int64_t adopted = 0, copied = 0, sent = 0;  // bytes; sent: from other nodes to this rank
  std::int64_t sent_early = 0;                     // bytes sent to this rank by send_early()
  // Of load(): check, copy, send, wait, update; before it: early.
  std::map<std::string, double> phases_ms;
};

// The state socket of a rank of the old or of the new generation.
using AddressOf = std::function<std::string(bool old, int rank)>;

// Memory of the old generation when its ranks are gone.
struct LostMemory {
  std::function<std::unique_ptr<Allocation>(const MemoryId&)> map;  // empty: the old generation is alive
  bool in_host = false;  // of a GPU's state: copies in host memory, which nothing adopts
};

// Call prepare(), offer(), connect() and send_early() while the old generation still trains, and
// load() at its boundary. The old generation's state is never written. Throws Error.
class Arrival {
 public:
  // Throws Error, before anything has changed, when the hand-off is not possible: see
  // plan_handoff().
  Arrival(RankState& state, World& world, Device& device, const Plan& before, const wire::GpuJobs& jobs,
          AddressOf address_of);
  // For a lost generation: none of its ranks is asked anything.
  Arrival(RankState& state, World& world, Device& device, HandoffPlan plan, AddressOf address_of, LostMemory lost);
  // Places every unit of this rank in its final memory. Maps the other memory of the old generation
  // from which this rank copies or sends.
  void prepare();
  // From now on `server` offers the memory that other ranks of the node read or write.
  void offer(StateServer& server);
  // Connects the ranks that will exchange messages. Maps memory of the node's other new ranks, from
  // which this rank copies. Before it, all ranks must have offered their memory. Collective. The
  // engine must be built.
  void connect();
  // Sends the early messages (transfer/early.hpp) if that takes less than `seconds`. Returns within
  // twice that time and some seconds more. The old generation does not wait for it. If an update
  // overtakes the messages, they are sent once more; if that fails too, everything is sent in the
  // pause. Everything is also sent in the pause if load() is not for the next step. Collective.
  void send_early(double seconds);
  // Checks that every source holds the state after `step`, and takes the state. `wait` returns when
  // the old generation has given the state that leaves its nodes; load() takes all other state
  // before it. Empty: the old generation has given it already. Collective. The engine must be
  // built.
  ArrivalReport load(std::int64_t step, const std::function<void()>& wait);
  // The units whose gradients lie in the old generation's memory, as their state does. release()
  // places them, because the old generation may train on until the commit.
  std::set<int> adopts_gradients() const;
  // Call it after the commit; the object is then used up. Memory that only the hand-off needed is
  // no longer on offer.
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
  LostMemory lost_;
  RankOperations operations_;
  std::vector<MessageOperation> messages_;
  std::set<std::pair<int, int>> landings_;  // old ranks that write into this rank's memory, and units (or kRelay)
  std::unique_ptr<Allocation> relay_;
  std::unique_ptr<ExchangeStages> stages_;
  std::map<MemoryId, std::unique_ptr<Allocation>> borrowed_;
  std::map<int, std::unique_ptr<Allocation>> gradients_;  // adopted, by unit

  std::optional<EarlyPlan> early_;  // set: there is something to send early
  std::vector<std::vector<MessageOperation>> slices_;
  std::vector<MessageOperation> last_;  // takes the place of messages_ after early ones
  EarlyCopies early_copies_;            // takes the place of operations_.late_copies
  SourceMarks marks_;
  std::int64_t early_step_ = -1;  // step of the state that was sent early; -1: none
  double early_seconds_ = 0;      // how long send_early() took
};

}  // namespace espalier::torchrt
