// The Slurm jobs that are bases of a movable job: asks Slurm about each until it has ended, and gives back those that
// training needs no more. What each base is for, the owner knows (bases.hpp). Callbacks run on the loop.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/base/base_time.hpp"
#include "launcher/process/awake_timer.hpp"
#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// For a base that has ended, and that this launcher never saw run. True if its keepers may have given it back because
// no launcher accepted them in time, for example while Slurm had suspended the submitted job. Their batch script then
// ends with success. False if its user cancelled it. `since`: the time since Slurm's answer before. If that is long,
// the launcher stood still, and Slurm may have forgotten the base meanwhile.
bool given_back_unseen(const std::optional<SlurmJob>& base, std::chrono::steady_clock::duration since);

class BaseJobs {
 public:
  struct Base {
    BaseShape shape;
    std::vector<Holding> holdings;
    std::vector<NodeView> nodes;
    std::time_t ends = 0;           // once it runs: by its time limit; 0: never
    std::set<std::string> keepers;  // nodes whose keeper has come
    bool running = false, granted = false, leaving = false, asked = false;
    bool past_deadline = false;  // Slurm has dropped it while it waited
    bool unseen = false;         // it has run, and its keepers have given it back, before this launcher saw it run
    bool beyond_told = false;    // it was said that its time limit is longer than its partition allows
    std::chrono::steady_clock::time_point heard_at{};  // Slurm's last answer about it, or its submission
    std::unique_ptr<AwakeTimer> keepers_come;
    wire::Watch check;  // until Slurm is asked again, or for the end
    wire::Watch again;  // Slurm is asked again
  };
  struct Callbacks {
    std::function<void(const Holding&)> came;  // steps can be started in this part of a base
    std::function<void(JobId)> granted;        // it runs, and its keepers are there
    // Slurm has not started it yet. `limited`: it waits for a limit of its user, account or QOS.
    std::function<void(JobId, bool limited)> waits;
    std::function<void(JobId, const std::string& why)> ended;  // without this object's doing: it is to be given back
    // Whether training does not go over to it once it completes: it is lost then. Another base is lost when its
    // processes are, and until then a checkpoint can still be written.
    std::function<bool(JobId)> lost_when_completing;
    std::function<void(JobId)> leaves;  // it is being given back
    std::function<void()> changed;      // what held() says has changed
  };
  // `time`: the owner's, which outlives this object. `place`: HOST:PORT at which keepers reach this launcher.
  BaseJobs(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, const BaseTime& time, std::string place,
           Callbacks callbacks);

  void add(JobId id, const BaseShape& shape);
  // Slurm has taken a base of the job. `which`: its name in the log, e.g. "a second". Slurm is asked about it at once.
  void submitted(JobId id, const BaseShape& shape, const std::string& which);
  // Slurm is asked about the base at once, or after a time.
  void ask(JobId id);
  void ask_later(JobId id, wire::Loop::Milliseconds after);
  void ask_about_all();
  // A rank server or a worker heard that Slurm ends the base, or a keeper of it is gone, if `id` is one that is not
  // being given back. Slurm is asked at once, and once more a second later. Calls within that second ask nothing:
  // thousands of keepers may go at once.
  void noticed(JobId id);
  // A keeper of a base has said hello. Throws Error when the base is not this job's or is being given back.
  void saw(const wire::KeeperHello& hello);
  void release(JobId id);  // gives it back
  void release_all();

  bool none() const { return bases_.empty(); }
  const Base& at(JobId id) const { return bases_.at(id); }
  // nullptr: there is none such, e.g. for id 0.
  const Base* find(JobId id) const;
  std::vector<Holding> holdings_of(JobId id) const;  // empty: there is none such, or it does not run yet
  std::vector<JobId> held() const;                   // all that wait or run, but for those that are being given back

 private:
  void answered(JobId id, const std::optional<SlurmJob>& seen, const std::vector<NodeView>& nodes);
  void check_granted(JobId id, bool patient);
  void ask_if_held(JobId id);
  void confirm_release(JobId id);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  const BaseTime& time_;
  const std::string place_;
  Callbacks callbacks_;
  std::map<JobId, Base> bases_;
};

}  // namespace espalier::launcher
