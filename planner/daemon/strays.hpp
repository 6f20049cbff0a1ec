// Extensions that have lost their owner. Slurm does not tie an extension to its anchor: without the
// anchor, the extension would hold its GPUs until its time limit. Keepers end their own extensions.
// The planner ends the rest. Pure.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/daemon/live_job.hpp"
#include "planner/daemon/profile_jobs.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// Since when jobs have been strays, for looks of one kind.
class StraySince {
 public:
  // Of a job that this look finds: whether it has been a stray for longer than `grace` seconds. If so, it is again 10 s
  // later.
  bool is_over(JobId id, double now, double grace);
  // What is known of the job stays, though this look does not find it.
  void keep(JobId id);
  // As keep(), but the time since the last look does not count.
  void pause(JobId id, double now);
  void end_look(double now);  // forgets all other jobs
  // The job's grace is over at the next look.
  void put_off(JobId id);

 private:
  std::map<JobId, double> since_, still_;  // before this look, and by it
  double last_look_ = 0;
};

class Strays {
 public:
  explicit Strays(std::string partition) : partition_(std::move(partition)) {}

  struct Stray {
    JobId extension = 0, anchor = 0;
    std::string why;
    const char* what = "extension";  // for people
    uid_t uid = 0;
    bool runs = false;
  };
  // Bases of movable jobs that have been strays longer than their grace: waiting or running ones whose submitted job
  // has ended (10 s) or is another user's (10 s), or that its settled launcher does not name (30 s). While the
  // submitted job waits to run again, its base stays.
  std::vector<Stray> look_at_bases(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs);
  // Profile jobs (profile_jobs.hpp) that have been strays longer than their grace: those whose job waits no longer, or
  // is another user's (1 s), and the youngest beyond `rules` (10 s).
  std::vector<Stray> look_at_profile_jobs(const SlurmSnapshot& slurm, const ProfilingRules& rules);
  // Extensions that have been strays longer than their grace. The grace is 10 s when the anchor has
  // ended or is another user's job, or when an older extension has the same comment, whose last part is the id of its
  // grant. It is 30 s when the anchor's launcher is connected, not
  // reconfiguring, and does not claim the extension. It is `give_back_seconds`, 30 s at least, when that launcher
  // claims it, and the job holds more than `max_gpus` with it: see beyond_limit(). It is 120 s when no launcher of the
  // anchor has registered: the planner may have been restarted. An anchor of `left_open`, which an earlier run left
  // open in the store, has no launcher that could register while it waits to run again or is suspended: until it runs,
  // its extensions are no strays for that. Until any launcher has registered in this run, none is: this may be an
  // espalierd that launchers do not reach, or the one of the backup controller. A stray that is still there is named
  // again 10 s later.
  std::vector<Stray> look(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs,
                          int max_gpus = std::numeric_limits<int>::max(), double give_back_seconds = 0,
                          const std::set<JobId>& left_open = {});
  // By job: extensions that the last look() found beyond `max_gpus`, and whose grace is not over. Their launchers can
  // be asked to give them back. Sorted.
  const std::map<JobId, std::vector<JobId>>& beyond_limit() const { return beyond_limit_; }

  // It was not ended: the next look names it again.
  void put_off(const Stray& stray);

 private:
  // Whether the launcher can be asked for the extension, which is beyond the limit. While it carries out a decision it
  // cannot, but the grace goes on. While it is not connected, is suspended or changes its plan by itself, the grace
  // stands still.
  bool can_be_asked_back(JobId extension, const LiveJob& live, const SlurmSnapshot& slurm);

  std::string partition_;
  bool registered_ = false;  // a launcher was, in this run
  StraySince since_, beyond_since_, bases_since_, profiles_since_;
  std::map<JobId, std::vector<JobId>> beyond_limit_;
};

// Puts those first that are to be ended first: each user has one, then each a second one, and so on. Any user can write
// thousands of comments that make strays, and ending one takes slurmctld several questions. Of a user's strays those
// that run come first, since they hold GPUs.
void take_turns(std::vector<Strays::Stray>& strays);

}  // namespace espalier
