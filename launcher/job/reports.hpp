// What the planner is told of the job: its state, its transitions, its profiles, and the outcomes of decisions.
#pragma once

#include <chrono>
#include <functional>

#include "launcher/job/planner_link.hpp"
#include "launcher/job/profile_relay.hpp"
#include "launcher/process/soon.hpp"
#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

class Reports {
 public:
  // `state`: what a status says, without a profile. `planner`: all but its `state`.
  Reports(wire::Loop& loop, const JobContext& context, std::function<ElasticJob()> state,
          PlannerLink::Callbacks planner);

  void status();
  // Within a moment, once for all calls until then: thousands of extensions may be released in one moment, and a status
  // names all that the job holds.
  void status_soon() { soon_.ask(); }
  // Of a movable job. `waits`: as in BasesHeld.
  void bases(const std::vector<JobId>& held, JobId waits);
  bool planner_knows_in_place() const { return link_.knows_in_place(); }
  void status_after_step();  // at most one each second, with a profile that is new
  void transition(const wire::Transition& transition) { link_.report(transition); }
  void outcome(const wire::Outcome& outcome) { link_.report_outcome(outcome); }
  // `rank` of the running generation has sent a profile of `plan`. Null: it cannot be one.
  const Profile* profiled(const wire::Frame& frame, int rank, const Plan& plan, const ModelShape& shape);
  void forget_profiles() { profiles_.forget(); }  // another plan runs
  void leave(const wire::Bye& bye) { link_.leave(bye); }

 private:
  const JobContext& context_;
  std::function<ElasticJob()> state_;
  ProfileRelay profiles_;
  std::chrono::steady_clock::time_point last_status_{};
  Soon soon_;
  PlannerLink link_;
};

}  // namespace espalier::launcher
