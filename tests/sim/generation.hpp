// A generation of a job's ranks, as the launcher sees it. The ranks speak the workers' protocol (torchrt/session.hpp)
// and count steps instead of training. Their state is the number of completed steps; a hand-off must keep it.
#pragma once

#include <optional>

#include "tests/sim/training.hpp"

namespace espalier::sim {

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
    // Only a rank that has got its state has state to leave.
    bool loaded_state(int generation) const { return generation == 0 ? assigned : loaded; }
    struct Request {  // a switch that is not answered yet
      bool in_place = false, resumed = false;
    };
    std::deque<Request> requests;
    bool in_place = false;      // what it answers
    std::optional<Plan> taken;  // a plan that it goes on with from this boundary
  };

  void launch(const std::string& host, std::uint16_t port);
  void signal(int number);
  void abandon() { abandoned_ = true; }  // the launcher hears no more of this generation
  // The rank servers of that job are lost, with their ranks: on one node, or on all where `node` is empty.
  void lose_server(JobId step_of, const std::string& node = "");
  bool training() const;  // committed, complete, and not at a boundary
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
  bool reaches_all() const;
  void started(std::size_t rank, const std::string& host, std::uint16_t port);
  void connect(std::size_t rank, const std::string& host, std::uint16_t port);
  void hear(std::size_t rank, const wire::Frame& frame);
  void train_frame(std::size_t rank, const wire::Frame& frame);
  void stand(std::size_t rank);
  void go_on(std::size_t rank);
  bool take_plan();
  bool starts_anew();
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
    const Generation* generation = nullptr;  // null: no state is left
    bool lost = true;                        // it is the lost generation, not an earlier one
  };
  struct Link {
    Generation* generation;
    std::int64_t until;  // state after this step was given up
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
  std::optional<wire::Loaded> taken_;  // in a recovery: the state that was taken
  bool told_ = false;                  // `taken_` was reported
  bool trained_ = false;
  int settles_after_ = 0;       // steps until it has settled
  std::int64_t load_step_ = 0;  // the step of its source's state
  std::int64_t begun_ = 0;      // the step after which it began
  int era_ = -1;                // how often the job has started from a checkpoint, with another launcher; -1: not known
  std::optional<bool> torn_;    // whether it was lost while the optimizer changed the state
  std::int64_t step_ = 0;
  std::int64_t mark_ = 0;    // the step of its state; -1 while a step is under way
  bool fresh_plan_ = false;  // no step was done yet on the plan that it has taken in place
  bool running_ = true, stepping_ = false, finished_ = false;
};

}  // namespace espalier::sim
