// Lets the job go on after a loss: from the loss of the running generation to the first step after it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/job/held_gpus.hpp"
#include "launcher/job/state_machine.hpp"
#include "launcher/recovery/faults.hpp"
#include "launcher/recovery/slurm_question.hpp"
#include "launcher/recovery/step_watch.hpp"
#include "launcher/world/generations.hpp"
#include "planner/core/schedule/planning_basis.hpp"

namespace espalier::launcher {

class Recovery {
 public:
  struct Callbacks {
    std::function<JobPhase()> phase;
    std::function<ElasticJob()> job;              // as the planner is told
    std::function<const PlanningBasis&()> known;  // for a plan on fewer GPUs
    // Asks Slurm on a thread of its own. The answer may come late, or not at all.
    std::function<void(const std::set<JobId>&, std::function<void(const SlurmAnswer&)>)> ask;
    std::function<void(const std::set<GpuId>& died)> doubt;  // nodes of the anchor whose keepers are silent
    std::function<void()> attempts;                          // a generation that goes on is being started
    std::function<void(const std::string& why)> hopeless;    // no attempt is left
    std::function<void(const wire::Outcome&)> report;
  };
  Recovery(wire::Loop& loop, const JobContext& context, Generations& generations, StepWatch& steps, HeldGpus& held,
           Callbacks callbacks);

  // Ranks of the running generation died, or of an attempt.
  void blame(const Loss& loss);
  void forgive() { died_.clear(), blamed_.clear(); }  // a next generation has taken the lost one's place in time
  void suspect(const Loss& loss);                     // ranks of an attempt did not start
  void faulty(const std::set<GpuId>& gpus);           // their driver reports errors
  void lost(const std::string& why);                  // the running generation
  // The running generation was lost with an earlier launcher of the job, and this launcher has started at `since`.
  void inherited(const std::string& why, std::chrono::steady_clock::time_point since);
  void failed(const std::string& why) { now_->last_try = why; }  // an attempt
  // What was left of the lost generation is gone. `trained`: it had begun to train.
  void bury(bool trained);

  void start();  // an attempt
  void send_recover();
  void commit();

  void stepped();  // a step was done: the recovery under way ends, if it has committed
  void end();      // the job ends
  bool loads() const { return now_ && now_->at.contains("ready"); }  // the attempt's workers take the state
  const Plan& plan() const { return now_->plan; }                    // of the attempt under way
  std::set<GpuId> unfit() const;  // GPUs on which ranks have died again and again, or that are faulty

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct State {
    std::string why;       // what was lost, in words
    std::string last_try;  // why the attempt before this one failed
    Time since;
    Time last_loss;                         // of the running generation or of an attempt
    std::optional<std::int64_t> last_step;  // that was done; nullopt: an earlier launcher knew
    Plan plan;                              // of the attempt under way
    std::map<std::string, Time> at;
    std::optional<wire::Loaded> taken;  // once committed
    bool waits_for_slurm = false;       // and the user has been told
    bool waits_for_base = false;        // no node of it answers, and that was said
    std::optional<Time> slurm_back;
  };
  void ask_slurm_first();
  void slurm_is_away(const std::string& why);  // the user is told, once
  void slurm_said(const SlurmAnswer& answer);
  void attempt();
  bool wait_for_doubts();
  void retry_in(wire::Loop::Milliseconds delay, bool doubts = false);
  bool tries() const;  // the job waits for an attempt
  std::string why_ended() const;
  void finish(const std::string& result);

  wire::Loop& loop_;
  const JobContext& context_;
  Generations& generations_;
  StepWatch& steps_;
  HeldGpus& held_;
  Callbacks callbacks_;
  std::optional<State> now_;
  Faults faults_;
  std::set<GpuId> died_, blamed_;  // in the loss that is being dealt with; and those that may be at fault
  SlurmQuestion question_;         // which nodes the job still has
  wire::Watch retry_;
};

}  // namespace espalier::launcher
