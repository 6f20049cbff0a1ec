// The first generation: carries out what FirstStart decides, knows the plan that the job started on, and starts once
// more on the job's own GPUs if an extension of a wide start is lost.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/first_start.hpp"
#include "launcher/job/program.hpp"
#include "launcher/world/generations.hpp"

namespace espalier::launcher {

class GenerationZero {
 public:
  struct Callbacks {
    std::function<JobPhase()> phase;
    std::function<ElasticJob()> job;     // as the planner is told
    std::function<void()> tell_planner;  // the job's state
    std::function<void(const std::vector<ExtensionRequest>&)> acquire;
    std::function<void()> cancel_acquired;
    std::function<std::vector<Holding>()> granted;             // extensions of a wide start
    std::function<void()> set_deadline;                        // the phase's time begins anew
    std::function<void(bool wide, const std::string&)> fails;  // `wide`: it counted on extensions
    std::function<void(const wire::Outcome&)> report;
  };
  // `environment`: for the program's description.
  GenerationZero(wire::Loop& loop, const JobContext& context, std::vector<std::string> environment, Program& program,
                 Generations& generations, Callbacks callbacks);

  void begin(std::chrono::steady_clock::time_point since);  // the launcher started at `since`
  // An earlier launcher has done that: no generation zero starts, and only known() is filled in.
  void skip();
  FirstStart& first_start() { return *first_start_; }
  const FirstStart& first_start() const { return *first_start_; }
  // The planner knows more than Slurm tells: used from now on, if it covers the job's own GPUs.
  void learn(const wire::Known& known);
  const PlanningBasis& known() const { return known_; }  // of the GPUs of the job, and its coefficients

  bool wide() const;                                       // the generation counts on extensions, and has not trained
  void lost(const std::string& why) { why_alone_ = why; }  // an extension of a wide start
  void start_alone();                                      // on the job's own GPUs; the ranks that were there are gone
  double trains();  // training begins; the seconds from the start of the launcher
  void stepped(const wire::Step& step, double start_seconds);  // reports the start after its first step

 private:
  bool covers_own(const PlanningBasis& knowledge) const;
  void run_ranks_unplanned();
  void start(const Decision& decision, RankOrder order);

  wire::Loop& loop_;
  const JobContext& context_;
  Program& program_;
  Generations& generations_;
  Callbacks callbacks_;
  PlanningBasis known_;
  std::unique_ptr<FirstStart> first_start_;
  std::optional<Decision> started_with_;  // until the first step
  std::string why_alone_;
  std::chrono::steady_clock::time_point began_{};
};

}  // namespace espalier::launcher
