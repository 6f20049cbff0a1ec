// Short looks at the links between a job's nodes, for the planner: how much of its like's bandwidth does each reach?
//
// In a look one pair of ranks for each link (link_rounds.hpp) sends a few messages to and fro, at most 1 MiB long, and
// the fastest trip counts. Links of one node take turns. After 50 ms a look begins with no more links; the next one
// goes on with those that it has left out. It touches no state and no random number, so training stays the same bit for
// bit.
#pragma once

#include <memory>
#include <optional>

#include "planner/core/link_look.hpp"
#include "torchrt/profiler/link_rounds.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Collective: all ranks make the same calls. For one thread. The references must outlive it.
class LinkLooks {
 public:
  // `seconds`: between two looks of a generation; 0: it never looks.
  LinkLooks(int seconds, World& world, Device& device, RankState& state);

  // Between the rehearsal and the first step, beside the generation before. From now on the generation looks. Without a
  // call of begin() it never does.
  void begin(bool look_now);
  // At a boundary. `since_first`: seconds since the generation's first step, the same on all ranks. The second and the
  // third look come soon: it takes three to prove a link slow (planner/daemon/slow_links.hpp).
  void at(double since_first);
  // The generation goes on with another plan on the same ranks, from whose first step at() counts.
  void begin_anew() { next_at_ = 0; }
  // The newest look; the same on all ranks.
  const LinkLook& newest() const { return newest_; }

 private:
  struct Trips {
    std::size_t bytes = 0;
    int count = 0;
  };
  bool prepare();
  void look();
  static Trips longer(double rate);  // after short trips at this rate
  double measure(const RankPair& pair, const Trips& trips);
  void send(int to, std::size_t bytes);
  void receive(int from, std::size_t bytes);

  const int seconds_;
  World& world_;
  Device& device_;
  RankState& state_;
  std::unique_ptr<Allocation> memory_;  // of ranks that are in a pair
  std::vector<Round> rounds_;           // of state_.plan()
  bool begun_ = false;
  std::size_t next_round_ = 0;
  double next_at_ = 0;  // seconds since the first step
  LinkLook newest_;
};

}  // namespace espalier::torchrt
