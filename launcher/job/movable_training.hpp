// What a movable job does beside other jobs. Training starts on a base that Slurm grants, or on a smaller one before
// that, or goes on where an earlier launcher left it; it goes over to a second base; and keepers are told what a later
// launcher needs to go on. For a job that is not movable nothing of this happens, but that a checkpoint is asked
// for before the end. Runs on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/bases.hpp"
#include "launcher/job/generation_zero.hpp"
#include "launcher/job/held_gpus.hpp"
#include "launcher/job/program.hpp"
#include "launcher/node/anchor_keepers.hpp"
#include "launcher/slurm/extensions.hpp"
#include "launcher/world/gpu_reach.hpp"
#include "launcher/world/rank_servers.hpp"

namespace espalier::launcher {

class MovableTraining {
 public:
  // All outlive this object.
  struct Rooms {
    JobContext& context;  // its base is set here
    Bases& bases;
    AnchorKeepers& keepers;
    Extensions& extensions;
    RankServers& rank_servers;
    Program& program;
    Generations& generations;
    GpuReach& reach;
    HeldGpus& gpus;
    GenerationZero& generation_zero;
  };
  struct Callbacks {
    std::function<JobPhase()> phase;
    std::function<void()> begin;       // generation 0, on the GPUs of the base
    std::function<void()> taken_over;  // training goes on from what an earlier launcher left
    std::function<void()> based;       // the job has a base: the planner is told
    std::function<void(const wire::Outcome&)> report;
  };
  MovableTraining(Rooms rooms, Callbacks callbacks) : rooms_(rooms), callbacks_(std::move(callbacks)) {}

  void start_on(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes);
  // The base is one that an earlier launcher has left, and so is the training, with these extensions. nullopt: no ranks
  // had been started on it.
  void take_over(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes,
                 const std::optional<wire::Continuation>& left, const std::vector<SlurmJob>& extensions);
  // The planner names idle GPUs on which training may start while the base waits.
  void start_smaller(const Decision& decision);
  void smaller_came(const std::string& result);  // "committed" or "aborted: why"

  void stepped();
  // Training has gone over to the second base, if the change under way has acquired one.
  void take_second();
  // A base before the present one whose GPUs the plan still uses; 0: none.
  JobId base_to_leave() const;
  // Slurm ends the base. Nothing but a checkpoint outlives it, so one is written, again after each change of
  // generation. Also for an anchored job, which is its own base. 0: it does not end after all.
  void base_ends(JobId base);
  void save_before_base_ends();

  // What a later launcher needs may have changed: keepers of the base are told, now or after the next step.
  void tell_keepers();
  void tell_keepers_later() { untold_ = true; }

 private:
  void has_base(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes);

  Rooms rooms_;
  Callbacks callbacks_;
  std::int64_t told_ = 0;  // how often
  bool untold_ = false;
  JobId ending_base_ = 0;            // Slurm ends it, once its processes have had their time
  std::optional<Decision> smaller_;  // under way, until the smaller base runs or has failed
};

}  // namespace espalier::launcher
