// Searches, beside training, for lists of the pipeline's schedule that are faster than the running plan's own, and
// proposes them. Only for a program that leaves the schedule to Espalier (training.schedule = "auto") and whose
// processes can take lists while they run. Runs on the loop; the search itself has a thread of low priority.
//
//   search.profiled(profile);   // a calm one starts the search; its result is proposed, once for each plan
//   search.another_plan();      // what runs has changed
//   search.stepped();           // lists that turn out slower than the plan's own are left again
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/job/change.hpp"
#include "planner/core/model/searched_lists.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/wire/side_thread.hpp"

namespace espalier::launcher {

class ListSearch {
 public:
  struct Callbacks {
    std::function<bool()> idle;  // the job trains, nothing is being changed, and its processes can take lists
    std::function<std::int64_t()> steps_left;
    std::function<PlanningBasis()> known;  // as the job sees its GPUs (site_for)
    // For the running plan, while the job is idle. Without lists: the plan's own.
    std::function<void(const Decision&, const std::optional<Lists>&)> propose;
  };
  // `patience`: what was found waits so long. The planner hears of the profile meanwhile, and its plans come first.
  ListSearch(wire::Loop& loop, JobId job, Callbacks callbacks,
             wire::Loop::Milliseconds patience = std::chrono::seconds(3));
  ListSearch(const ListSearch&) = delete;
  ListSearch& operator=(const ListSearch&) = delete;

  // The newest profile of the running plan.
  void profiled(const Profile& profile);
  // Another generation or another plan runs, or the lists that were proposed do.
  void another_plan();
  // A step was done, in so many seconds.
  void stepped(double seconds);
  // The ranks cannot run what they were asked for in place. Lists that they refuse are the last ones.
  void refused() { over_ = over_ || proposed_; }
  // The change under way was given up. True: it was to the lists that were proposed, or away from them.
  bool given_up();
  // Searched lists run now.
  bool runs() const { return runs_; }
  // The running generation failed because of the lists that it ran: there will be no others.
  void failed() { over_ = true; }
  // The running generation was lost for no known reason. The second loss in the first steps with lists ends the search.
  void lost();

 private:
  void found(int asked, const Profile& profile, std::shared_ptr<const SearchedLists> result, double search_ms);
  void propose(const Profile& profile, const SearchedLists& result, double search_ms);
  void leave();

  wire::Loop& loop_;
  const JobId job_;
  Callbacks callbacks_;
  const wire::Loop::Milliseconds patience_;
  int asked_ = 0;          // counts what runs: an answer for an earlier plan is dropped
  bool searched_ = false;  // for the plan that runs
  bool proposed_ = false, over_ = false;
  // Seconds of the last steps of what runs, while nothing else was under way. The first step takes longer and is not
  // among them.
  struct Steps {
    int count = 0;
    std::deque<double> seconds;
    double usual() const;  // their median; 0: none is known
  };
  // Of the plan whose lists were proposed, and then run.
  struct Trial {
    Plan plan;
    double before = 0;  // Steps::usual() with the plan's own lists
    bool leaves = false;
  };
  Steps steps_;
  std::optional<Trial> trial_;
  bool runs_ = false;                         // searched lists
  int losses_ = 0;                            // in trials
  wire::Watch waits_;                         // until what was found is proposed
  std::unique_ptr<wire::SideThread> thread_;  // made for the first search
};

// What the planner and the user are told of lists that were found.
Decision list_decision(JobId job, const Plan& plan, const SearchedLists& found);

}  // namespace espalier::launcher
