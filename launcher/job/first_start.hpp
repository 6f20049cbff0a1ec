// From the start of the launcher to the start of generation 0: what the program trains, which plan
// it starts on, and the extensions of a wide start. Every wait has a limit, so that generation 0
// starts without a planner too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/description.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/wire/start_messages.hpp"

namespace espalier::launcher {

class FirstStart {
 public:
  struct Limits {
    wire::Loop::Milliseconds describe{2000};  // for the program's description
    bool describes = true;                    // the program is on this node, not in a container
    wire::Loop::Milliseconds plan{2000};      // for the planner's plan
    wire::Loop::Milliseconds wide{5000};      // for the extensions of a wide start
  };
  struct Callbacks {
    std::function<ElasticJob()> job;              // its model, once it is known, and its own GPUs
    std::function<const PlanningBasis&()> known;  // of the job's own nodes at least
    std::function<void(const wire::Description&)> described;
    std::function<void()> tell_planner;  // the job's state: the planner answers with a plan
    // Ranks on all GPUs of the job's own, before any plan: the program tells its shape in its hello.
    std::function<void()> run_ranks;
    std::function<void(const std::vector<ExtensionRequest>&)> acquire;
    std::function<void()> cancel_acquired;
    // A decision of the planner's that generation 0 does not start on, and why.
    std::function<void(const Decision&, const std::string& why)> given_up;
    // With RankOrder::given the ranks run. GPUs of extensions are provisional.
    std::function<void(const Decision&, RankOrder)> start;
    std::function<void(const std::string&)> refuse;  // no plan can be: why, with figures
  };
  // `program`, `environment`: for its description.
  FirstStart(wire::Loop& loop, std::vector<std::string> program, std::vector<std::string> environment, Limits limits,
             Callbacks callbacks);

  void begin();
  // The hello of an undescribed program's first rank.
  void told_by_hello();
  void proposed(const Decision& decision);
  void no_plan(const std::string& why);  // of the planner's will come
  void planner_away();
  // Before the planner's plan. `goes_on`: training starts from an earlier state (deadline_words.hpp).
  void deadline_checked(const wire::DeadlineChecked& checked, bool goes_on);
  void granted();
  void acquire_failed(const std::string& why);
  // An extension of the wide start was lost before training began: on the job's own GPUs, then.
  void start_alone(const std::string& why);

  bool asks_for_extensions() const { return stage_ == Stage::acquiring; }
  bool done() const { return stage_ == Stage::done || stage_ == Stage::refused; }

 private:
  enum class Stage { idle, describing, ranks_start, asking, acquiring, done, refused };  // refused: by its deadline
  void ask(RankOrder order);
  void choose_alone(const std::string& because);
  std::string why_not(const Decision& decision) const;  // empty: it suits
  void start(const Decision& decision);

  wire::Loop& loop_;
  const std::vector<std::string> program_, environment_;
  const Limits limits_;
  Callbacks callbacks_;
  Stage stage_ = Stage::idle;
  RankOrder order_ = RankOrder::planned;
  bool planner_away_ = false, deadline_told_ = false;
  std::optional<Decision> wide_;
  std::unique_ptr<ProgramDescription> description_;
  wire::Watch limit_;
};

}  // namespace espalier::launcher
