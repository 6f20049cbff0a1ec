// Answers the questions of profile jobs (planner/wire/stage_queries.hpp): where they run, what they measure, and what
// becomes of it. What a user reports is kept as that user's knowledge, which counts for others only where
// planner.share_profiles says so.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/daemon/planner.hpp"
#include "planner/daemon/profile_jobs.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/service.hpp"

namespace espalier {

// Distinct stages that are measured for one job on GPUs of one type.
inline constexpr std::size_t kMostStages = 8;

class QueueProfiles {
 public:
  explicit QueueProfiles(Planner& planner) : planner_(planner) {}  // which must outlive this object
  // Whether answer() takes this question.
  static bool knows(const std::string& what) { return what.starts_with("stage_"); }
  // Throws Error when the question is refused; its message is for the user.
  Json answer(const wire::Query& query, const wire::Peer& peer);

 private:
  // A job that waits, as the profile job describes it.
  struct Waiting {
    ElasticJob job;
    std::string type;  // of the profile job's GPU
  };
  Json places(const Json& arguments, const SlurmJob& waiting);
  Json plans(const Json& arguments, const SlurmJob& waiting);
  Json report(const Json& arguments, const SlurmJob& waiting);
  // nullopt: Slurm has not told of the profile job yet.
  std::optional<Waiting> described(const Json& arguments, const SlurmJob& waiting) const;
  std::vector<Knowledge> rows_of(const ElasticJob& job) const;
  std::vector<std::string> foresee(const ElasticJob& job) const;
  void forget_started();

  Planner& planner_;
  std::map<std::pair<JobId, std::string>, int> tries_;  // of a waiting job on a GPU type
  RecentGrants recent_;
};

// What a start's reason says of the profiles that `rows` (ids of Knowledge) hold of single stages, and whether `plan`
// is the one that was foreseen while `job` waited; begins with "; ". Empty: there are none.
std::string told_by_stages(Store& store, const std::vector<std::int64_t>& rows, JobId job, const Plan& plan,
                           const Site& site);

}  // namespace espalier
