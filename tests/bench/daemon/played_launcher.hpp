// What espalierd sees of one launcher: the product's connection to the planner, a job that trains by the clock, and
// proposals that take the time that extensions and ranks take.
#pragma once

#include <functional>
#include <memory>
#include <random>

#include "launcher/job/planner_link.hpp"
#include "tests/bench/daemon/job_kinds.hpp"
#include "tests/bench/daemon/played_site.hpp"

namespace espalier::bench {

// Of all launchers.
struct LauncherCounts {
  int espalierd = 1;  // the process of espalierd that runs: 1, and after its restart 2
  int proposals = 0;
  int committed = 0;
  int aborted = 0;
  int refused = 0;
  int unreachable = 0;  // outages
};

// How launchers reach espalierd.
struct Where {
  std::string host;
  std::uint16_t port = 0;
  uid_t planner_uid = 0;
};

class PlayedLauncher {
 public:
  // Its process is `uid`'s. `released` is called with what an extension held when it has ended.
  PlayedLauncher(wire::Loop& loop, PlayedSite& site, const Where& where, const JobKind& kind, JobId job, uid_t uid,
                 std::vector<Holding> anchor, LauncherCounts& counts,
                 std::function<void(const std::vector<Holding>&)> released, std::mt19937& random);
  ~PlayedLauncher();
  PlayedLauncher(const PlayedLauncher&) = delete;
  PlayedLauncher& operator=(const PlayedLauncher&) = delete;

  // Whether the espalierd that runs now has registered it.
  bool registered() const { return registered_with_ == counts_.espalierd; }
  // The job has come to its end: says good-bye. Destroy it after the loop's next turns.
  void leave();

 private:
  ElasticJob state() const;
  void report(bool profile);
  void phase(JobPhase phase, const char* event);
  void proposed(const Decision& decision);
  void granted();
  void commit();
  void abort(const std::string& why);
  void end_extension(JobId extension);

  wire::Loop& loop_;
  PlayedSite& site_;
  const JobKind& kind_;
  ElasticJob job_;
  double begun_ = 0;  // when this generation began
  std::int64_t first_step_ = 0;
  bool left_ = false;
  int statuses_ = 0;
  int registered_with_ = 0;  // as LauncherCounts::espalierd; 0: none
  LauncherCounts& counts_;
  std::function<void(const std::vector<Holding>&)> released_;
  std::optional<Decision> decision_;
  std::vector<Holding> acquired_;
  wire::Watch next_, every_second_;
  std::unique_ptr<launcher::PlannerLink> link_;
};

}  // namespace espalier::bench
