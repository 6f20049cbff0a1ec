// Extensions that go from one job to another. Not in Suika. Internal to the scheduler.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/schedule/payoff.hpp"
#include "planner/core/schedule/shrinking.hpp"
#include "planner/core/solver/algorithm1.hpp"

namespace espalier {

// Finds jobs with much work left whose extensions another job would use better (objective.hpp). Kept
// between decisions: neither side of a trade trades again for a minute. A job that did not grow by
// its trade waits twice as long before the next, up to an hour, so that GPUs which it cannot get do
// not go back and forth.
class Trades {
 public:
  // What one decision is about. The arguments must outlive the call.
  struct Market {
    const SchedulerOptions& options;
    const PlanningInput& input;
    const Site& site;
    const std::vector<Supply>& supplies;  // what growth has left
    const ExpandOptions& expand;
    double threshold;
    const Payoff& payoff;
  };

  // The givers' shrinks; their players no longer grow. A taker grows at a later decision, when the
  // GPUs are idle. `may_give`: whether a job may shrink now. Nothing while a job waits.
  std::vector<Decision> find(const Market& market, std::vector<Player>& players,
                             const std::function<bool(const Player&)>& may_give);

 private:
  struct Last {
    double time = 0;
    double rest = 0;     // seconds before the next trade
    int taker_gpus = 0;  // GPUs of the taker at the trade; 0: the job was the giver
  };
  bool rested(const Player& one, double now) const;
  void rest(const Player& taker, double now);
  void remember(const Player& taker, const Player& giver, double now);
  const StackTop* worth_giving(const Market& market, Player& taker, Player& giver) const;

  std::map<JobId, Last> last_;
};

}  // namespace espalier
