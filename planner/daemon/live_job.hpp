// One elastic job whose launcher the planner knows.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/schedule/plan_trials.hpp"
#include "planner/daemon/growth_regret.hpp"
#include "planner/daemon/profile_book.hpp"
#include "planner/daemon/store.hpp"
#include "planner/wire/server.hpp"

namespace espalier {

struct LiveJob {
  // As the launcher reports it, except for uid and id, which come from Slurm and MUNGE.
  ElasticJob job;
  wire::ConnectionPtr link;  // null while the launcher is not connected
  std::string host;          // where the launcher runs
  int pid = 0;
  double started = 0;  // when Slurm had started the job when its launcher registered; a requeued job starts again

  std::optional<double> last_change;  // seconds since the epoch; starts the cooldown
  int failures = 0;                   // aborted decisions in a row
  double not_before = 0;              // no proposal before this time, after a failure
  bool failed_to_shrink = false;      // the last failure; after another one only growth waits until `not_before`
  double saved = 0;                   // when the store last got `job`
  double scaled_at = 0;               // when its scale table was made
  double tokens_per_second = 0;
  TrainingUsage usage;
  bool stands = false;  // Slurm has suspended or requeued it, and `usage` counts no time
  ProfileBook profiles;
  // What it has of earlier jobs. It is looked up again when the cluster's hardware changes, or when
  // the job's model becomes known.
  std::shared_ptr<const Site> recalled_on;
  ModelShape recalled_for;
  std::vector<std::int64_t> recalled_rows;  // ids of Knowledge
  std::string driver;                       // of the last profile
  std::string unfit_profile;                // why the last profile was refused before `profiles` got it
  std::optional<double> pause_seconds;      // mean of the last committed reconfigurations
  std::optional<double> start_seconds;      // mean time that a generation of a job like it took to start

  bool start_planned = false;       // the plan of generation 0 was decided, or cannot be
  double planned_at_start_of = -1;  // `started` when it last was
  std::string told;                 // the last `known` that the launcher got, as text

  std::optional<DecisionRecord> open;  // proposed, without an outcome yet
  // The generation that ran when `open` was proposed. A recovery after a reconnect raises it to its
  // own generation.
  int proposed_to = 0;
  bool back_since = false;         // the launcher has registered again since
  bool movable = false;            // its launcher has told of its bases
  std::vector<JobId> bases;        // Slurm jobs that wait or run as its base, or did until training left them
  std::vector<std::string> types;  // GPU types that a movable job may run on; empty: any
  // The base that waits while the job has none, where fewer GPUs are enough to start; 0: there is none.
  JobId base_waits = 0;
  int smaller_failures = 0;       // smaller bases that did not start
  double smaller_not_before = 0;  // no other one before this time
  // While its base moves: jobs that waited before, and its own bases. The second base is withdrawn for others.
  std::set<JobId> waited_before;
  std::vector<double> moves;               // when its base was to be replaced, within the last hour
  double move_not_before = 0;              // its base is not to be replaced before, after such a decision was dropped
  std::set<JobId> before;                  // extensions and bases when `open` was proposed
  std::optional<DecisionRecord> measured;  // committed; its step time is still being measured
  std::optional<BeforeGrowth> before_growth;  // the plan that a growth took it from, until it has paid or is taken back
  std::set<std::string> slow_told;            // slow nodes that were logged
  // Nodes where a growth made its steps slower, and until when it gets no extension there. After such a growth it gets
  // none anywhere for a while, twice as long each time.
  std::map<std::string, double> avoided;
  int regrets = 0;  // growths in a row that were taken back
  double grow_not_before = 0;
  PlanTrials trials;
  bool trial_due = false;        // its present plan is measured, and no other was proposed since
  std::vector<double> tried_at;  // trials within the last hour
  std::string shadowed;          // the last decision that --shadow recorded
  bool excess_told = false;      // whether a warning about too many of its reports was logged
  int confirmed_gpus = 0;        // the most GPUs that Slurm has confirmed for it
  double no_smaller_before = 0;  // no plan was found on the GPUs that extensions.max_gpus leaves it; not again before
};

// The clock was set back: it showed `before` and, at once or somewhat later, shows `now`. What happened counts as not
// later than `now`, and what must not be before a time waits no longer than it would have.
void clock_set_back(LiveJob& live, double before, double now);

}  // namespace espalier
