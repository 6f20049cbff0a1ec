// A model of Slurm: nodes with GPUs, jobs of one or several nodes, a queue with backfill, preemption with grace, time
// limits, completing jobs, node failures, requeued jobs, and a slurmctld that may stand still.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/daemon/slurm.hpp"
#include "tests/sim/mutant.hpp"
#include "tests/sim/timeline.hpp"

namespace espalier::sim {

struct SimNode {
  std::string name;
  std::vector<JobId> owner;  // of each GPU; 0: no job
  bool up = true;
};

struct SimJob {
  // A movable job is `submitted` without GPUs, and holds those of its bases and extensions.
  enum class Kind { anchor, plain, extension, submitted, base };
  JobId id = 0;
  Kind kind = Kind::plain;
  SlurmJobState state = SlurmJobState::pending;
  int nodes = 1, gpus = 1;            // GPUs of each node
  std::string node;                   // the node that it needs; empty: any node
  std::vector<std::string> only;      // the nodes that it needs, as many as `nodes`; empty: any nodes
  std::vector<std::string> excluded;  // nodes that it must not get
  std::string comment;
  std::vector<std::string> environment;
  std::vector<Holding> holdings;
  Seconds submitted = 0, started = 0, ended = 0, limit = 0;
  Seconds deadline = 0;  // the job is dropped if it cannot end by then; 0: none
  bool preempted = false;
  JobId anchor = 0;         // of an extension or a base: its elastic job
  int restarts = 0;         // how often it was requeued
  bool runs_again = false;  // completing: it is requeued
  Seconds begin = 0;        // it starts no earlier
  Seconds configured = 0;   // running: its nodes have booted by then, and its processes start
};

class SlurmModel {
 public:
  static constexpr Seconds kGrace = 15, kKillWait = 15, kBackfill = 1;
  static constexpr Seconds kMinute = 25;  // seconds in a minute of a lease, because histories are short
  static constexpr const char* kPartition = "elastic";

  // What Slurm does to processes. All hooks are called from events of the surroundings.
  struct Hooks {
    std::function<void(const SimJob&)> start;                        // starts its batch script or its step
    std::function<void(const SimJob&)> signal;                       // SIGTERM to its steps
    std::function<void(const SimJob&)> kill;                         // SIGKILL to all its processes
    std::function<void(JobId, const std::string& node)> leave_node;  // the job goes on without this node
    std::function<void(JobId)> kill_steps;                           // SIGKILL to its steps, not to the batch script
    std::function<void(const std::string& text)> event;              // a datagram of a plugin
  };
  SlurmModel(Timeline& timeline, Random& random, Mutant mutant, std::vector<SimNode> nodes, Hooks hooks);

  JobId submit(SimJob job);                                   // anchors and plain jobs
  JobId submit_extension(const launcher::ExtensionJob& job);  // throws Error
  JobId submit_base(const launcher::BaseJob& job);            // throws Error
  // Jobs that wait or run for a movable job.
  std::vector<JobId> marked(JobId submitted, SimJob::Kind kind) const;
  void exclude(JobId id, const std::vector<std::string>& nodes);  // throws Error where the job does not wait
  void cancel(JobId id);                                          // scancel
  void give_back(JobId id);                                       // its steps were killed: it completes at once
  void over(JobId id);                                            // its batch script or step has ended
  // Its processes are dead, or slurmctld does not reach it: slurmctld notices that some seconds later.
  void fail_node(const std::string& node);
  void restore_node(const std::string& node) { named(node).up = true; }
  bool is_down(const std::string& node) { return !named(node).up; }

  SlurmSnapshot snapshot() const;
  const std::map<JobId, SimJob>& jobs() const { return jobs_; }
  const std::vector<SimNode>& nodes() const { return nodes_; }
  const SimJob* find(JobId id) const;
  JobId owner(const GpuId& gpu) const;
  bool runs_steps(JobId id, const std::string& node) const;

  Seconds longest_boot = 0;  // of the nodes of a base; Slurm calls the base running meanwhile
  bool leases_end = true;    // whether a running extension ends at its time limit

  // slurmctld stands still until then. Calls wait, and fail if the wait is long.
  Seconds back_at = 0;
  bool tells_preemption(const SimJob& job) const { return job.preempted && mutant_ != Mutant::silent_notice; }
  bool answers() const { return timeline_.now() >= back_at; }

 private:
  SimNode& named(const std::string& node);
  void schedule();
  bool try_start(SimJob& job);
  bool place(SimJob& job);
  static bool may_use(const SimJob& job, const SimNode& node);
  JobId admit(SimJob job, bool immediate);
  bool somebody_waits() const;
  void make_room(const SimJob& job);
  void preempt(SimNode& node, int lacking);
  void excise(SimJob& job, const std::string& node);
  void end(SimJob& job, Seconds patience);
  void kill(SimJob& job);
  bool undying(const SimJob& job) const {
    return (mutant_ == Mutant::undying_extension && job.kind == SimJob::Kind::extension) ||
           (mutant_ == Mutant::undying_base && job.kind == SimJob::Kind::base);
  }
  void tick();

  Timeline& timeline_;
  Random& random_;
  Mutant mutant_;
  std::vector<SimNode> nodes_;
  Hooks hooks_;
  std::map<JobId, SimJob> jobs_;
  JobId last_ = 100;
};

}  // namespace espalier::sim
