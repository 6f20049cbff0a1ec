// Every message, as a struct. `T::type` is the frame's type; to_frame/from_frame convert, from_frame throws Error
// naming the message and the field that is missing or of a wrong kind.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/wire/frame.hpp"

namespace espalier::wire {

// ---- worker -> launcher -------------------------------------------------------------------------------------------

// First message of a worker.
struct Hello {
  static constexpr const char* type = "hello";
  int generation = 0;
  int rank = 0;
  std::string node;
  int pid = 0;
  ModelShape model;
  std::int64_t total_steps = 0;
  HandoffMethod handoff = HandoffMethod::adopt;
  bool spare = false;  // the program may be started ahead and told later who it is (ESPALIER_SPARE). May be absent
  ParallelLimits parallel = {};  // May be absent
};

// What `PROGRAM --describe` prints, as one line of JSON: what the hello of its workers will say. A
// program without it is asked nothing, and its hello says the same later.
struct Description {
  static constexpr const char* type = "description";
  ModelShape model;
  std::int64_t total_steps = 0;
  HandoffMethod handoff = HandoffMethod::adopt;
  bool spare = false;
  ParallelLimits parallel = {};
  bool goes_on = false;  // from a checkpoint: fewer steps than total_steps are left. May be absent
};

// Everything slow is done: contexts, communicators, buffers, old state mapped, first batch.
struct Ready {
  static constexpr const char* type = "ready";
  // Of the GPUs that the rank's process can see, in the order of Assign::device: those with the same number reach each
  // other's memory. May be absent: all do.
  std::vector<int> gpu_islands = {};
  // The rank uses no GPU memory: it reaches ranks of the training's other Slurm jobs on its node without the network.
  // May be absent: it does not.
  bool jobs_reach = false;
};

// After each optimizer step, from rank 0 only.
struct Step {
  static constexpr const char* type = "step";
  std::int64_t step = 0;  // 1-based: the number of completed steps
  double loss = 0;
  double seconds = 0;
  double tokens_per_second = 0;
  // Every rank has what a loss needs of this generation: nobody goes back to older ones any more. May be absent.
  bool settled = false;
};

// What the generation measured of itself, gathered at rank 0 and sent from there alone, every so many steps. A launcher
// that cannot use it drops it: the job does not depend on it.
struct Profiled {
  static constexpr const char* type = "profile";
  Profile profile;
};

// Before `switched`, of an old rank that is about to send what leaves nodes: all of its generation stand at the
// boundary after `step` and have what it takes, so that what stays on their nodes can be taken meanwhile.
struct Standing {
  static constexpr const char* type = "standing";
  std::int64_t step = 0;
};

// An old rank stands at the boundary after `step`, has sent what leaves its node, and serves its state; or its state is
// in a checkpoint, unless `problem` says why not.
struct Switched {
  static constexpr const char* type = "switched";
  std::int64_t step = 0;
  std::string problem = {};
};

// A new rank holds all of its state, which is that after `step`. `from` tells a recovery's source: "generation" (what
// the lost one left), "earlier" (what one before it left), "snapshot", "checkpoint" or "start"; it is empty in a
// hand-off.
struct Loaded {
  static constexpr const char* type = "loaded";
  std::int64_t bytes_adopted = 0, bytes_copied = 0, bytes_sent = 0;
  std::int64_t step = 0;
  std::string from = {};
  std::map<std::string, double> phases_ms = {};  // what took how long on this rank, for the outcome
  std::int64_t bytes_sent_early = 0;             // before the old generation stood; bytes_sent do not count them
};

// This rank has finished the last step.
struct Done {
  static constexpr const char* type = "done";
  std::int64_t step = 0;
};

// A worker's last words: a message for the user. `peer`: it did not fail by itself, it could not reach another rank, so
// that the job may go on without that one. `memory`: it got no memory, which another generation may have had just then.
struct Failed {
  static constexpr const char* type = "failed";
  std::string message;
  bool peer = false;
  bool memory = false;  // may be absent
};

// ---- launcher -> worker -------------------------------------------------------------------------------------------

using espalier::GpuIslands;  // of Ready::gpu_islands

// By "node/index", of each GPU that the job has: its Slurm job. GPUs of one Slurm job that do not reach each other's
// memory have other numbers instead, the same for those that do.
using GpuJobs = std::map<std::string, JobId>;

// Who this rank is. With `source`, its state comes from the generation before, else from initialisation.
struct Assign {
  static constexpr const char* type = "assign";
  struct Source {
    int generation = 0;
    Plan plan;
    bool recovery = false;     // that generation is lost: take what is left of it, else older state. May be absent
    double early_seconds = 0;  // how long state may be sent while that one trains; 0: not at all. May be absent
    // In a recovery: those before the lost one, the newest first, whose state it may still need. May be absent.
    struct Earlier {
      int generation = 0;
      Plan plan;
      bool copies_only = false;  // the one after it has trained, in memory of this one's
      std::int64_t step = 0;     // where the one after it began; what is newer was given up
    };
    std::vector<Earlier> earlier = {};
  };
  Plan plan;
  std::optional<Source> source;
  Accuracy accuracy = Accuracy::bitwise;  // the job's; wins over the training configuration
  // Which of the GPUs that the rank's process can see is its own, the lowest index of Slurm's first. May be absent.
  std::optional<int> device = {};
  // Processes reach memory of GPUs with the same number only. Both generations of a hand-off are told the same. May be
  // absent: a node's GPUs reach each other.
  GpuJobs jobs = {};
};

// To the old generation: stop at the first iteration boundary that all ranks can agree on. `next` tells what must
// leave, `generation` who takes it. With the generation's own number nothing leaves: each rank says in `switched`
// whether it can go on with `next`, and `resume` with that plan follows. Only a program whose hello says `in_place` is
// asked that.
struct Switch {
  static constexpr const char* type = "switch";
  Plan next;
  int generation = 0;
  GpuJobs jobs = {};  // as in the new generation's Assign; may be absent
};

// To the new generation: the old one stands after `step`; take the state. In a recovery `step` is -1: the new
// generation itself knows what is left.
struct Load {
  static constexpr const char* type = "load";
  std::int64_t step = 0;
  bool giving = false;  // old ranks are still sending what leaves their nodes; `given` follows. May be absent
};

// To the new generation: what left the old one's nodes has been sent.
struct Given {
  static constexpr const char* type = "given";
};

// To the new generation: it is now the job. To the old one `exit` follows.
struct Commit {
  static constexpr const char* type = "commit";
};

// To the generation that stands at the boundary: train on. With a plan: on that one, which the `switch` named, and in
// which every rank's state lies where it is (keeps_places). Without: on the plan that it had.
struct Resume {
  static constexpr const char* type = "resume";
  std::optional<Plan> plan = {};  // may be absent
};

// To the running generation: write a checkpoint at the next boundary, when there is a place for checkpoints; GPUs will
// go before their state can.
struct Checkpoint {
  static constexpr const char* type = "checkpoint";
};

// Leave at once, with exit code 0.
struct Exit {
  static constexpr const char* type = "exit";
};

// ---- keeper <-> launcher ------------------------------------------------------------------------------------------

// From a keeper, a rank server or a worker: Slurm told the extension to leave (SIGTERM).
struct Notice {
  static constexpr const char* type = "notice";
  JobId job = 0;
};

// From a keeper, a rank server or a worker, and from the launcher to a keeper or a rank server: still there.
struct Heartbeat {
  static constexpr const char* type = "heartbeat";
};

// To a keeper: `generation` is the job, and has trained: what older ones trained on may be let go; copies of it, those
// of generations before `copies`.
struct Keep {
  static constexpr const char* type = "keep";
  int generation = 0;
  int copies = 0;
};

// To a keeper: kill the job's other steps, complete the job, exit.
struct GiveBack {
  static constexpr const char* type = "give_back";
};

// ---- launcher -> planner ------------------------------------------------------------------------------------------

// First message; repeated in full after every reconnect, so a restarted planner learns all.
struct Register {
  static constexpr const char* type = "register";
  ElasticJob job;
  std::string host;
  int pid = 0;
};

// The job's present state, whole, after anything in it changed and at most once a second for step counts.
struct Status {
  static constexpr const char* type = "status";
  ElasticJob job;
};

struct Transition {
  static constexpr const char* type = "transition";
  JobId job = 0;
  double time = 0;
  std::string from, event, to;
  int generation = 0;
  std::int64_t decision = 0;  // 0: the launcher's own
};

// How a decision ended. `phases_ms`: acquire, start, pause and whatever else was timed.
struct Outcome {
  static constexpr const char* type = "outcome";
  JobId job = 0;
  std::int64_t decision = 0;  // 0: the launcher acted by itself; the planner then records a decision of its own
  DecisionKind kind = DecisionKind::nothing;
  std::string result;                      // "committed" or "aborted: why"
  std::string reason;                      // one sentence; of a decision of the launcher's own
  Trigger trigger = Trigger::node_down;    // of a decision of the launcher's own. May be absent
  std::vector<Candidate> candidates = {};  // what the launcher weighed for it. May be absent
  int generation = 0;
  std::int64_t step = 0;  // last step of the old generation; in a recovery the one whose state training went on from
  double pause_ms = 0;
  std::map<std::string, double> phases_ms;
  Plan plan;
};

// The job ends; forget it.
struct Bye {
  static constexpr const char* type = "bye";
  JobId job = 0;
  int exit_code = 0;
};

// ---- planner -> launcher ------------------------------------------------------------------------------------------

struct Registered {
  static constexpr const char* type = "registered";
  // The planner knows that a generation may go on with another plan. May be absent: then every plan gets its own.
  bool in_place = false;
};

// Answer to anything the planner will not do; the connection closes after it.
struct Refused {
  static constexpr const char* type = "refused";
  std::string reason;
};

struct Propose {
  static constexpr const char* type = "propose";
  Decision decision;
};

// What the planner knows that a launcher needs to plan by itself: the job's nodes, their GPUs and
// bandwidths, and the job's coefficients (planner/core/schedule/planning_basis.hpp). Sent after
// `registered`, and again when it changes.
struct Known {
  static constexpr const char* type = "known";
  Json basis = Json::object();
};

// ---- tools and nodes -> planner -----------------------------------------------------------------------------------

// `what`: "ping", "job", "explain", "hold" and the others of queries.cpp. A name that it does not know is
// refused.
struct Query {
  static constexpr const char* type = "query";
  std::string what;
  Json arguments = Json::object();
};

struct Reply {
  static constexpr const char* type = "reply";
  Json body = Json::object();
};

// hwloc's XML of a node, sent when its slurmd starts. From root or SlurmUser only.
struct Topology {
  static constexpr const char* type = "topology";
  std::string node;
  std::string xml;
};

template <class Message>
Frame to_frame(const Message& message);
template <class Message>
Message from_frame(const Frame& frame);

}  // namespace espalier::wire
