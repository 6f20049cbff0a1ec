// The base of a movable job: the Slurm job of the user that holds its basic demand. This object submits it, tells when
// it runs, replaces it by another one, and gives it back. Only this object and the keepers of a base own it. Callbacks
// run on the loop.
//
//   bases.start();                       // callbacks.granted follows, after minutes or days
//   bases.acquire(request);              // a second base, onto idle GPUs: callbacks.second_granted or second_failed
//   bases.promote();                     // training is on the second base; the first is given back some steps later
//
// While the first base waits, training may start on a smaller one. When the first is granted then, it has `arrived`,
// and is moved to like a second base:
//   bases.start_smaller(request);        // callbacks.smaller_granted or smaller_failed
//   bases.take_arrived();                // after callbacks.arrived: the second base is now the one that arrived
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/adoption.hpp"
#include "launcher/base/base_jobs.hpp"
#include "launcher/base/base_time.hpp"
#include "launcher/base/first_base.hpp"
#include "launcher/base/left_jobs.hpp"
#include "launcher/base/next_launcher.hpp"
#include "launcher/base/second_base.hpp"
#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/keeper_messages.hpp"

namespace espalier::launcher {

class Bases {
 public:
  struct Callbacks {
    // The first base runs, and its keepers are there. `nodes`: as load_nodes().
    std::function<void(const std::vector<Holding>&, const std::vector<NodeView>& nodes)> granted;
    // Whether this launcher can go on with what an earlier one has left.
    std::function<bool(const wire::Continuation&)> suits;
    // A base that an earlier launcher of the job has left is the first base, as `granted`. `left`: what that launcher
    // has told its keepers; nullopt: it had started no ranks.
    std::function<void(const std::vector<Holding>&, const std::vector<NodeView>&,
                       const std::optional<wire::Continuation>& left, const std::vector<SlurmJob>& extensions)>
        taken_over;
    std::function<void()> superseded;  // Slurm has requeued the job: the bases are another launcher's
    std::function<void(const std::string& why)> refused;  // the first base will never run
    std::function<void(const std::vector<Holding>&, const std::vector<NodeView>& nodes)> smaller_granted;
    std::function<void(const std::string& why)> smaller_failed;
    // The first base has been granted while training is on a smaller one. Called again every few seconds until
    // take_arrived() or give_back_arrived().
    std::function<void()> arrived;
    std::function<void()> second_granted;
    std::function<void(const std::string& why)> second_failed;
    std::function<void(const std::string& why)> lost;  // Slurm has ended the base that training is on
    std::function<void(const Holding&)> came;          // steps can be started in this part of a base
    std::function<void(JobId)> leaves;                 // a base is being given back
    std::function<void()> changed;                     // what held() says has changed
  };
  // `environment`: the variables that a keeper needs to find the launcher.
  Bases(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
        Callbacks callbacks);

  void start();
  // Submits a second base. It must start within seconds, or it is withdrawn.
  void acquire(const std::vector<ExtensionRequest>& nodes);
  // Submits a smaller base for the time for which the first waits, as acquire(). Throws Error when the first base does
  // not wait or there is a smaller one.
  void start_smaller(const std::vector<ExtensionRequest>& nodes);
  // The first base, while it waits, is to get only these nodes ("n[1-2]"; empty: all that it may have). It keeps its id
  // and its place in the queue. Says so in the output, or why it stays as it is.
  void steer(JobId base, const std::string& nodes);
  // Makes the base that has arrived the second one.
  void take_arrived();
  void give_back_arrived(const std::string& why);
  // Gives a second base back that was acquired for a move; second_failed follows. Nothing where there is none.
  void withdraw_second(const std::string& why);
  // A second base that has arrived stays for the next try; it is given back after three.
  void cancel_second();  // gives a second base back; calls neither second_granted nor second_failed
  // The second base, if there is one, takes the first one's place. The first is held for `longer` than otherwise.
  void promote(wire::Loop::Milliseconds longer);
  // Training has done a step on the base. The base before it is given back after some steps, once `settled`: what a
  // loss needs is on the new base, and the plan has left the one before. After a minute it is given back anyway.
  void stepped(bool settled);
  void release_all();  // for the end of the job
  bool empty() const { return jobs_.none() && !second_base_.asking() && !left_jobs_.asking() && !first_base_.asking(); }
  bool superseded() const { return next_launcher_.there(); }
  void supersede() { next_launcher_.found(); }  // Slurm says that it has requeued the job

  // A rank server or a worker heard that Slurm ends the base, if `id` is one. Slurm is asked at once.
  void noticed(JobId id) { jobs_.noticed(id); }
  // A keeper of a base has said hello. Throws Error when the base is not this job's.
  void saw(const wire::KeeperHello& hello);
  void look();  // asks Slurm now whether the bases still run, e.g. after a loss

  JobId current() const { return current_; }  // 0: none runs yet
  bool moving() const { return second_ != 0 || before_ != 0 || arrived_ != 0 || acquiring_; }
  // The first base, while it waits and training could start on a smaller one; else 0.
  JobId waits() const;
  // Of the base that has arrived, while no other is left or moved to; else nothing.
  std::vector<Holding> arrived_holdings() const {
    return second_ == 0 && before_ == 0 ? jobs_.holdings_of(arrived_) : std::vector<Holding>();
  }
  std::vector<NodeView> arrived_nodes() const;   // of the base that has arrived
  std::vector<Holding> second_holdings() const;  // of a second base that was granted
  std::vector<NodeView> second_nodes() const;    // the same
  // Of the base that training was on before, until it is given back.
  std::vector<Holding> before_holdings() const { return jobs_.holdings_of(before_); }
  // All bases that wait or run, but for those that are being given back.
  std::vector<JobId> held() const { return jobs_.held(); }

 private:
  BaseJobs::Callbacks of_jobs();
  void submit_first();
  void take_over_waiting(JobId id, const BaseShape& shape);
  void go_on_with_first();
  void await_left(const std::vector<SlurmJob>& left);
  void choose_left();
  void give_back_extensions();
  void submitted(JobId id, const BaseShape& shape, bool first);
  void still_waits(JobId id, bool limited);
  void granted(JobId id);
  void granted_first(JobId id);
  void refused(const std::string& why);
  void fail(const std::string& why);
  void give_back_before();
  void ended(JobId id, const std::string& why);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  Callbacks callbacks_;
  BaseTime time_;
  BaseJobs jobs_;
  JobId first_waits_ = 0;  // the first base, until it is granted
  FirstBase first_base_;
  SecondBase second_base_;
  LeftJobs left_jobs_;
  Adoption adoption_;  // of a base that an earlier launcher has left
  std::vector<SlurmJob> extensions_left_;
  NextLauncher next_launcher_;
  JobId current_ = 0, second_ = 0, before_ = 0;
  JobId arrived_ = 0;  // the first base, granted while training is on a smaller one, until training is on it
  int tries_ = 0;      // moves to it that have failed
  bool acquiring_ = false, ending_ = false;
  unsigned attempt_ = 0;  // number of acquire() calls; a second base of an older call is given back
  int steps_beside_ = 0;
  wire::Watch watch_, deadline_;
};

}  // namespace espalier::launcher
