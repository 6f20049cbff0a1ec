// The bases of a movable job: Slurm jobs of the user that hold its basic demand. This object puts each base into its
// place: the first one, the one that training is on, a second one beside it, and the one before it. Only this object
// and the keepers of a base own it. Callbacks run on the loop.
//
//   bases.start();                       // callbacks.granted follows, after minutes or days
//   bases.second().acquire(request);     // onto idle GPUs: callbacks.second_granted or second_failed
//   bases.promote();                     // training is on the second base; the first is given back some steps later
//
// While the first base waits, training may start on a smaller one. When the first is granted then, it has `arrived`,
// and is moved to like a second base:
//   bases.start_smaller(request);        // callbacks.smaller_granted or smaller_failed
//   bases.second().take_arrived();       // after callbacks.arrived: the second base is now the one that arrived
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/base_before.hpp"
#include "launcher/base/base_jobs.hpp"
#include "launcher/base/current_base.hpp"
#include "launcher/base/first_base.hpp"
#include "launcher/base/inheritance.hpp"
#include "launcher/base/next_launcher.hpp"
#include "launcher/base/second_base.hpp"

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
    // second().take_arrived() or first().give_back_arrived().
    std::function<void()> arrived;
    std::function<void()> second_granted;
    std::function<void(const std::string& why)> second_failed;
    std::function<void(const std::string& why)> lost;  // Slurm has ended the base that training is on
    std::function<void(const Holding&)> came;          // steps can be started in this part of a base
    std::function<void(JobId)> leaves;                 // a base is being given back
    std::function<void()> changed;                     // what held() says has changed
  };
  // `environment`: the variables that a keeper needs to find the launcher.
  Bases(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, const std::vector<std::string>& environment,
        Callbacks callbacks);

  void start();
  // Submits a smaller base for the time for which the first waits, as second().acquire(). Throws Error when the first
  // base does not wait or there is a smaller one.
  void start_smaller(const std::vector<ExtensionRequest>& nodes);
  // The second base, if there is one, takes the first one's place. The first is held for `longer` than otherwise.
  void promote(wire::Loop::Milliseconds longer);
  void release_all();  // for the end of the job

  // A rank server or a worker heard that Slurm ends the base, if `id` is one, or a keeper of it is gone. Slurm is asked
  // at once, and once more.
  void noticed(JobId id) { jobs_.noticed(id); }
  // A keeper of a base has said hello. Throws Error when the base is not this job's.
  void saw(const wire::KeeperHello& hello);
  void look();  // asks Slurm now whether the bases still run, e.g. after a loss

  FirstBase& first() { return first_; }
  SecondBase& second() { return second_; }
  BaseBefore& before() { return before_; }
  NextLauncher& next_launcher() { return next_launcher_; }

  JobId current() const { return current_.id(); }  // 0: none runs yet
  bool moving() const;
  // The first base, while it waits and training could start on a smaller one; else 0.
  JobId waits() const;
  // Of the base that has arrived, while no other is left or moved to; else nothing.
  std::vector<Holding> arrived_holdings() const;
  // Of the base that training was on before, until it is given back.
  std::vector<Holding> before_holdings() const { return jobs_.holdings_of(before_.id()); }
  // All bases that wait or run, but for those that are being given back.
  std::vector<JobId> held() const { return jobs_.held(); }
  bool empty() const;  // there is none, and none is asked for

 private:
  BaseJobs::Callbacks of_jobs();
  void go_on(JobId left);
  void go_on_with_first();
  void granted(JobId id);
  void granted_first();
  void ended(JobId id, const std::string& why);

  wire::Loop& loop_;
  const JobContext& context_;
  Callbacks callbacks_;
  CurrentBase current_;
  BaseJobs jobs_;
  FirstBase first_;
  SecondBase second_;
  BaseBefore before_;
  Inheritance inheritance_;  // from an earlier launcher
  NextLauncher next_launcher_;
  bool ending_ = false;
  wire::Watch watch_;
};

}  // namespace espalier::launcher
