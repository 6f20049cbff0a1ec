// The trainings of all jobs of a history: their generations, what those ask of their surroundings, and what goes wrong
// with them.
#pragma once

#include <map>

#include "launcher/world/ranks.hpp"
#include "planner/wire/messages.hpp"
#include "tests/sim/mutant.hpp"
#include "tests/sim/network.hpp"

namespace espalier::sim {

// Events of a job's steps, over all its generations, and questions that the ranks ask of their surroundings.
struct StepEvents {
  std::function<void(JobId job, int generation, std::int64_t step)> completed;
  // srun starts a step of job `step_of` on the rank's node. The function then gets whether it could.
  std::function<void(const PartyPtr& rank, JobId step_of, std::function<void(bool)>)> start_step;
  // A generation that follows a lost one begins with the state after `step`. `from`: wire::Loaded::from.
  std::function<void(JobId job, int generation, std::int64_t step, const std::string& from)> recovered;
  // Whether a rank on node `reader` can read what ranks in steps of job `step_of` left in the vault of `node`.
  std::function<bool(JobId step_of, const std::string& node, const std::string& reader)> keeps;
  // Whether the vault of job `step_of` on the node still keeps the state that the generation trained on.
  std::function<bool(JobId step_of, const std::string& node, int generation)> kept;
  // State after step `left` was there, and the job goes on from older state.
  std::function<void(JobId job, int generation, std::int64_t left)> forgotten;
  // A rank takes a GPU, in a step of job `step_of`.
  std::function<void(JobId job, const GpuId& gpu, JobId step_of)> placed;
  // Whether the job has a newer launcher: what this one still does on a node that is cut off is of no account.
  std::function<bool(JobId job, const PartyPtr& launcher)> superseded;
};

struct Trouble {
  double slow = 0, hang = 0, die = 0, misload = 0;  // probabilities, per rank of a generation that starts
  double unreadable = 0;                            // that a generation cannot read the checkpoint it starts from
  double crowded = 0;                               // that a step lacks memory that another generation has
  double overfull = 0;                              // that the first step on a plan taken in place lacks memory
};

class Generation;

class Training {
 public:
  Training(Timeline& on, Random& from, Network& over, Mutant broken, StepEvents told)
      : timeline(on), random(from), network(over), mutant(broken), events(std::move(told)) {}

  // Starts a generation, as the launcher's rank servers do.
  std::shared_ptr<Generation> start(const PartyPtr& launcher, JobId job, const launcher::WorldRequest& request,
                                    launcher::RanksCallbacks callbacks);
  Generation* find(JobId job, int generation) const;
  bool crowds(const Generation& one) const;   // another generation of the job has GPUs beside it
  int newest_committed(JobId step_of) const;  // generation with a rank in a step of that job
  const std::vector<std::shared_ptr<Generation>>& all() const { return all_; }
  void signal_steps(JobId job);                              // SIGTERM to the processes in the job's steps
  void kill_steps(JobId job, const std::string& node = "");  // empty: on all nodes
  void kill_node(const std::string& node);
  std::vector<PartyPtr> ranks_alive() const;
  void kill_rank(const PartyPtr& rank);

  Timeline& timeline;
  Random& random;
  Network& network;
  Mutant mutant;
  StepEvents events;
  Trouble trouble;
  std::int64_t total_steps = 60;
  static constexpr std::int64_t kCheckpointSteps = 10;
  std::map<JobId, std::int64_t> checkpoints;  // the step of each job's newest checkpoint
  Seconds heartbeat = 1;
  Seconds step_seconds = 0.5;
  bool by_checkpoint = false;  // the hand-off's method is `checkpoint`
  bool in_place = false;       // a generation can go on with another plan
  bool needs_network = false;  // a step waits for the network between its ranks
  // The newest step of which `reader` can read the state that is left of the job's ranks, of which generation `told` is
  // the newest that anybody was told of. 0: there is none.
  std::int64_t left_of(JobId job, const std::string& reader, int told) const;
  // What every program trains.
  wire::Description description() const {
    return {{"gpt2", 4, 256, 4, 128, 1000, 8, 4},
            total_steps,
            by_checkpoint ? HandoffMethod::checkpoint : HandoffMethod::adopt,
            false,
            {}};
  }

 private:
  std::vector<std::shared_ptr<Generation>> all_;
};

}  // namespace espalier::sim
