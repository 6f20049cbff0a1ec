// What a vault holds: descriptors of workers' memory, by the worker that deposited them, and the marks by which each
// worker says which step its memory is of. For one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/vault_message.hpp"

namespace espalier::launcher {

class Deposits {
 public:
  using Depositor = std::pair<int, int>;  // generation and rank
  using Clock = std::chrono::steady_clock;
  Deposits();
  ~Deposits();

  // A worker begins to deposit. `marks`: its marks, sealed memory of `bytes` bytes. Returns why it may not; empty: it
  // may.
  std::string enter(Depositor depositor, wire::Descriptor marks, std::size_t bytes);
  // The functions of a depositor take one that has entered.
  bool has_mark(Depositor depositor, std::int32_t mark) const;
  // Takes `fd` as `request` names it. Returns why not; empty: it is held.
  std::string take(Depositor depositor, const wire::VaultRequest& request, wire::Descriptor fd);
  void end(Depositor depositor);  // its process has ended
  // Whether the state that it trains on is being changed. No state is changed before the ranks agree on the first step.
  bool changes(Depositor depositor) const;

  bool any_lives_before(int generation) const;
  bool any_ended() const;
  // The deposits of `generation`. The state of a depositor that still lives gets step -1, i.e. cannot be used: the
  // process may still change it.
  std::vector<wire::VaultItem> items(int generation) const;
  // The descriptor that `request` asks for; -1: it is not held, or its depositor lives.
  int find(const wire::VaultRequest& request) const;

  // Lets the state go that ended depositors of `generation` trained on.
  void discard(int generation);
  // Lets deposits of ended depositors go. Of generations before `kept`: the state that was trained on. Of generations
  // before `copies`: everything. Torn snapshots go as well.
  void let_go(int kept, int copies);
  // Drops generations that were given up before they became the job's generation, `after` they ended. A generation
  // older than such a one lives.
  void drop_abandoned(Clock::duration after);

 private:
  class Marks;
  struct Held;
  std::map<Depositor, std::unique_ptr<Held>> held_;
};

}  // namespace espalier::launcher
