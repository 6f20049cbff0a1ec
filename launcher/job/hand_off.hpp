// A change of generation: the planner's decision, or the launcher's own answer to a notice, from the proposal to the
// first step of the new generation. What each phase took is reported, and predicts the next change.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "launcher/job/grace.hpp"
#include "launcher/recovery/step_watch.hpp"
#include "launcher/world/generations.hpp"

namespace espalier::launcher {

class HandOff {
 public:
  struct Callbacks {
    std::function<std::vector<Holding>()> held;     // by the job, without what was just acquired
    std::function<std::vector<Holding>()> granted;  // extensions for this change
    std::function<bool()> hurries;                  // Slurm takes extensions back
    std::function<void(const std::string& why)> next_lost;
    std::function<void(const wire::Outcome&)> report;
  };
  HandOff(const JobContext& context, Generations& generations, StepWatch& steps, Callbacks callbacks);

  void begin(const Decision& decision);
  bool under_way() const { return change_.has_value(); }
  const Decision& decision() const { return change_->decision; }
  std::int64_t id() const { return change_ ? change_->decision.id : 0; }  // 0: of the launcher's own, or none
  // No state has to move for the plan, no rank starts or ends, and the running generation says that it can go on so.
  bool goes_in_place() const;
  bool releases(JobId extension) const;  // the change under way gives it back
  // A phase of the change under way has ended. Without a change nothing happens.
  void note(const std::string& phase);
  void note_why(const std::string& why);  // it may be given up

  // Actions of the state machine.
  void start_next();
  void send_switch();
  void ask_in_place();  // whether the running generation can take the plan
  void begin_load();
  void send_load();
  void end_old();
  void commit();
  void go_on_in_place();  // the running generation takes the plan
  // The running generation failed by itself before it has done a step on a plan that it had taken in place: the job has
  // its earlier plan again, and the change is reported as given up. False: there was no such change.
  bool take_back_in_place(const std::string& why);
  void report_aborted(bool lost);  // `lost`: the loss has a message of its own
  // The report follows with the first step of the new generation, which completes the figures.
  void report_committed() { change_.reset(); }

  // The first step of the new generation, in case the change waits for it.
  void stepped(const wire::Step& step);
  void lost();  // the job or the new generation ends before its first step

  double early_seconds() const { return early_seconds_; }  // of the change under way
  void generation_0_took(double seconds) { measured_.start = seconds; }
  double start_seconds() const { return measured_.start; }
  double predicted_seconds();  // that the next change is likely to take

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Change {
    Decision decision;
    std::map<std::string, Time> at;  // phase ends, for the outcome
    std::string why_aborted;
    std::int64_t boundary = 0;
    bool load_begun = false;
    std::optional<Plan> in_place_of = {};  // the plan before, of a change in place
    std::map<std::string, double> load_phases_ms = {};
  };
  void await_first_step();
  void finish_pause(std::int64_t step, std::optional<double> step_seconds);
  wire::Outcome outcome(const Decision& decision, const std::string& result) const;

  const JobContext& context_;
  Generations& generations_;
  StepWatch& steps_;
  Callbacks callbacks_;
  std::optional<Change> change_, awaiting_first_step_;
  MeasuredPhases measured_;
  double early_seconds_ = 0;
};

}  // namespace espalier::launcher
