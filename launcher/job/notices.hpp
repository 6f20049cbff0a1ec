// Answers Slurm's notices that it takes extensions back: with a plan on the GPUs that stay, or, if there is no time for
// a change of generation or no plan (with fewer GPUs than MIN of --elastic there is none), with a checkpoint. After a
// base was replaced, it also makes the change that leaves the GPUs of the base before. And it makes the change to a
// base that Slurm has granted while training was on a smaller one.
#pragma once

#include <functional>
#include <set>

#include "launcher/job/held_gpus.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Notices {
 public:
  struct Callbacks {
    std::function<std::set<JobId>()> taken;                // extensions that Slurm takes back
    std::function<JobId()> base_before;                    // a base that the plan still uses and shall leave; 0: none
    std::function<std::vector<Holding>()> arrived;         // a base that training shall move to; empty: none
    std::function<double(const std::set<JobId>&)> since;   // seconds since the first notice for one of them
    std::function<bool()> idle;                            // the job trains, and nothing is being changed
    std::function<ElasticJob()> job;                       // as the planner is told
    std::function<const PlanningBasis&()> known;           // for a plan on fewer GPUs
    std::function<double()> needs;                         // seconds that a change of generation is likely to take
    std::function<void()> save;                            // asks the running generation for a checkpoint
    std::function<void()> take_arrived;                    // the next proposal moves to it
    std::function<std::vector<NodeView>()> arrived_nodes;  // of that base
    std::function<void(const std::string&)> stays;         // the base that has arrived is not moved to, and why
    std::function<void(const Decision&)> propose;          // a plan without the extensions
  };
  Notices(wire::Loop& loop, const JobContext& context, const HeldGpus& held, Callbacks callbacks);

  // Answers the notices that wait for an answer, if the job is idle. Call it whenever the job may have become idle.
  void answer();
  // The last answer came to nothing. A change that failed at once would fail at once again, so the next answer waits.
  void failed();

 private:
  bool too_late_for(const std::set<JobId>& taken);
  void cannot_stay(const ElasticJob& job, int left, const std::set<JobId>& going);
  void give_up(const std::set<JobId>& taken);  // they go before the job can leave them
  void move_to(const std::vector<Holding>& base);

  wire::Loop& loop_;
  const JobContext& context_;
  const HeldGpus& held_;
  Callbacks callbacks_;
  std::set<JobId> given_up_;  // extensions that go before the job can leave them
  wire::Watch retry_;
};

}  // namespace espalier::launcher
