// The change under way: the planner's decision, or the launcher's own answer to a notice, from the proposal to its
// commit, or until it is given up. Carries out a change of generation; one that the running ranks can take is for
// in_place(). What follows the commit is for pause(). Runs on the loop.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/plan_in_place.hpp"

namespace espalier::launcher {

class HandOff {
 public:
  struct Callbacks {
    std::function<std::vector<Holding>()> held;     // by the job, without what was just acquired
    std::function<std::vector<Holding>()> granted;  // extensions for this change
    std::function<bool()> hurries;                  // Slurm takes extensions back
    std::function<bool()> by_disk;                  // the program hands its state over through a checkpoint
    std::function<void(const std::string& why)> next_lost;
    std::function<void(const wire::Outcome&)> report;
  };
  // All references outlive this object.
  HandOff(const JobContext& context, Generations& generations, StepWatch& steps, Callbacks callbacks);
  HandOff(const HandOff&) = delete;
  HandOff& operator=(const HandOff&) = delete;

  void begin(const Decision& decision, std::optional<Lists> lists = {});
  bool under_way() const { return change_.has_value(); }
  const Decision& decision() const { return change_->decision; }
  std::int64_t id() const { return change_ ? change_->decision.id : 0; }  // 0: of the launcher's own, or none
  bool releases(JobId extension) const;                                   // the change under way gives it back
  // A phase of the change under way has ended. Without a change nothing happens.
  void note(const std::string& phase);
  void note_why(const std::string& why);  // it may be given up

  // Actions of the state machine.
  void start_next();
  void send_switch();
  void begin_load();
  void send_load();
  void end_old();
  void commit();
  void report_aborted(bool lost);  // `lost`: the loss has a message of its own
  // The change is over. Its report follows from pause(), with the first step.
  void report_committed() { change_.reset(); }

  PlanInPlace& in_place() { return in_place_; }
  Pause& pause() { return pause_; }
  double early_seconds() const { return early_seconds_; }  // of the change under way

 private:
  const JobContext& context_;
  Generations& generations_;
  StepWatch& steps_;
  Callbacks callbacks_;
  std::optional<Change> change_;
  Pause pause_;
  PlanInPlace in_place_;
  double early_seconds_ = 0;
};

}  // namespace espalier::launcher
