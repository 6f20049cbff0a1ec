// What the planner knows at one moment, for threads that answer questions. Nothing in it changes after it was made.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slow_links.hpp"
#include "planner/daemon/slow_nodes.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/unfit_nodes.hpp"

namespace espalier {

struct PlannerSettings;

// A LiveJob without its connection and without what no answer tells.
struct JobView {
  ElasticJob job;
  bool connected = false, movable = false;
  bool known = false;  // its coefficients are settled, or those of an earlier job
  std::vector<JobId> bases;
  TrainingUsage usage;
  std::optional<std::int64_t> open;  // the decision that is under way
  std::optional<double> last_change;
  int failures = 0;
  double not_before = 0;
  std::map<std::string, double> avoided;  // as LiveJob has them
  double grow_not_before = 0;
  // Nodes that jobs of its user have found to be slow, and those behind links that they have found to be slow: it grows
  // onto none of them. Set by Planner::view() alone.
  std::vector<std::string> slow, behind_slow_links;
  std::vector<std::string> types;
  int plans_measured = 0;    // on the GPUs that it has
  bool trials_over = false;  // it tries no other plan on these GPUs
};
JobView view_of(const LiveJob& live);

struct PlannerView {
  std::vector<std::shared_ptr<const JobView>> jobs;   // sorted by id
  std::map<JobId, LiveJob> promised;                  // with open decisions: only id, uid, `open` and `before` are set
  std::map<std::string, SlowNodes::Slow> slow;        // by node
  std::map<std::string, SlowLinks::Slow> slow_links;  // by node
  std::map<std::string, int> unfit;                   // by node: for how many jobs
  std::shared_ptr<const SlurmSnapshot> slurm;         // null: Slurm has not answered yet
  std::optional<std::string> trouble;                 // why Slurm does not answer
  std::shared_ptr<const std::vector<Weighed>> weighed;  // of the last decision, sorted by job
  std::shared_ptr<const PlannerSettings> settings;

  const JobView* job(JobId id) const;          // null: none such
  const Weighed* weighed_job(JobId id) const;  // null: the decision did not weigh it
};

// What was promised to `live`, as PlannerView::promised has it. `live` has an open decision.
LiveJob promise_of(const LiveJob& live);

}  // namespace espalier
