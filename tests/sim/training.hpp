// Generations as the launcher sees them: ranks that speak the workers' protocol (torchrt/worker.cpp) and
// count steps instead of training. What they share, the number of completed steps, is what a hand-off must keep.
#pragma once

#include <map>
#include <optional>

#include "launcher/world/ranks.hpp"
#include "planner/wire/messages.hpp"
#include "tests/sim/mutant.hpp"
#include "tests/sim/network.hpp"

namespace espalier::sim {

// What happens to a job's steps, over all its generations.
struct StepEvents {
  std::function<void(JobId job, int generation, std::int64_t step)> completed;
  // srun starts a step of that job on the rank's node; says whether it could, then.
  std::function<void(const PartyPtr& rank, JobId step_of, std::function<void(bool)>)> start_step;
  // A generation that follows a lost one begins with the state after `step`, taken from there or from older state.
  std::function<void(JobId job, int generation, std::int64_t step, const std::string& from)> recovered;
  // Whether what ranks of that job's steps left in the vault of the node can be read by a rank on another.
  std::function<bool(JobId step_of, const std::string& node, const std::string& reader)> keeps;
  // Whether the vault of that job has not been told to let go of what the generation trained on.
  std::function<bool(JobId step_of, int generation)> kept;
  // Newer state was left than what is gone on from.
  std::function<void(JobId job, int generation, std::int64_t left)> forgotten;
  std::function<void(JobId job, const GpuId& gpu, JobId step_of)> placed;  // a rank takes a GPU, in a step of that job
};

struct Trouble {
  double slow = 0, hang = 0, die = 0, misload = 0;  // probabilities, per rank of a generation that starts
  double unreadable = 0;                            // a checkpoint, for the generation that is to start from it
  double crowded = 0;                               // a step that lacks the memory another generation has
};

class Generation;

class Training {
 public:
  Training(Timeline& on, Random& from, Network& over, Mutant broken, StepEvents told)
      : timeline(on), random(from), network(over), mutant(broken), events(std::move(told)) {}

  // As the launcher's rank servers start them.
  std::shared_ptr<Generation> start(const PartyPtr& launcher, JobId job, const launcher::WorldRequest& request,
                                    launcher::RanksCallbacks callbacks);
  Generation* find(JobId job, int generation) const;
  bool crowds(const Generation& one) const;   // another of the job is there with it
  int newest_committed(JobId step_of) const;  // of those with a rank in a step of that job
  const std::vector<std::shared_ptr<Generation>>& all() const { return all_; }
  void signal_steps(JobId job);  // SIGTERM to what runs in the job's steps
  void kill_steps(JobId job);
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
  std::map<JobId, std::int64_t> checkpoints;  // the newest one's step
  Seconds heartbeat = 1;
  Seconds step_seconds = 0.5;
  bool by_checkpoint = false;  // the hand-off's method

 private:
  std::vector<std::shared_ptr<Generation>> all_;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Training& training, PartyPtr launcher, JobId job, int number, launcher::RanksCallbacks callbacks)
      : training_(training),
        launcher_(std::move(launcher)),
        job_(job),
        number_(number),
        callbacks_(std::move(callbacks)) {}

  struct Rank {
    PartyPtr party;
    EndPtr line;
    JobId step_of = 0;  // the Slurm job whose step it runs in
    std::optional<GpuId> gpu;
    bool assigned = false, loading = false, loaded = false, committed = false, standing = false, answering = false,
         answered = false, resumed = false, moved = false, given = false;
    bool started = false, gone = false, hangs = false, noticed = false, checkpoints = false;
    // Before its state was there it has none to leave.
    bool loaded_state(int generation) const { return generation == 0 ? assigned : loaded; }
    std::deque<bool> requests;  // switches not answered yet; true: resumed already
  };

  void launch(const std::string& host, std::uint16_t port, const std::string& token);
  void signal(int number);
  void abandon() { abandoned_ = true; }  // the launcher hears no more of it
  void lose_server(JobId step_of);       // that of one job, with its ranks
  bool training() const;                 // committed, complete, and not at a boundary
  JobId job() const { return job_; }
  int number() const { return number_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  bool running() const { return running_; }
  std::int64_t mark() const { return mark_; }
  std::int64_t step() const { return step_; }
  bool complete() const;
  const PartyPtr& launcher() const { return launcher_; }

  void lose_rank(std::size_t rank, bool with_node, int code = 137);
  void notice(JobId extension);

 private:
  friend class Training;
  void started(std::size_t rank, const std::string& host, std::uint16_t port, const std::string& token);
  void connect(std::size_t rank, const std::string& host, std::uint16_t port, const std::string& token);
  void hear(std::size_t rank, const wire::Frame& frame);
  void train_frame(std::size_t rank, const wire::Frame& frame);
  void stand(std::size_t rank);
  void go_on(std::size_t rank);
  void begin_step();
  void end_step();
  void finish();
  void beat(std::size_t rank);
  void load(std::size_t rank, const wire::Load& load);
  bool source_stands() const;
  void complete_load(std::size_t rank);
  void recover(std::size_t rank);
  void tell_recovery();
  void choose_source(const std::string& reader);
  bool survives(const Generation& old, const std::string& reader, bool truly) const;
  bool speaks(const Generation& old, const std::string& reader, bool truly) const;
  bool torn();
  struct Left {
    const Generation* generation = nullptr;  // null: nothing
    bool lost = true;                        // it is the lost one, not one before
  };
  struct Link {
    Generation* generation;
    std::int64_t until;  // what is newer was given up
  };
  Left newest_left(const std::vector<Link>& chain, const std::string& reader, bool truly) const;
  void others_notice(std::size_t lost);
  void fail(std::size_t rank, const std::string& why, bool memory = false);
  void leave(std::size_t rank);
  void end_all(Seconds delay);  // SIGTERM to all ranks
  void tell_launcher(Seconds delay, std::function<void()> what);
  template <class Test>
  bool all(Test test) const {
    for (const Rank& rank : ranks_)
      if (!test(rank)) return false;
    return !ranks_.empty();
  }

  Training& training_;
  PartyPtr launcher_;
  JobId job_;
  int number_;
  launcher::RanksCallbacks callbacks_;
  bool abandoned_ = false;
  int code_ = 0;  // of the first rank that failed
  std::vector<Rank> ranks_;
  std::optional<wire::Assign> assign_;
  std::optional<wire::Loaded> taken_;  // in a recovery
  bool told_ = false;                  // what was taken
  bool trained_ = false;
  int settles_after_ = 0;       // steps
  std::int64_t load_step_ = 0;  // of its source's state
  std::int64_t begun_ = 0;      // the step it began after
  std::optional<bool> torn_;    // lost in the middle of the optimizer
  std::int64_t step_ = 0;
  std::int64_t mark_ = 0;  // of its state: the step it belongs to; -1 while a step is under way
  bool running_ = true, stepping_ = false, finished_ = false;
};

}  // namespace espalier::sim
