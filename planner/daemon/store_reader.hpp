// What the decision store tells. A reader of its own has a read-only connection to the file, so that questions can be
// answered on another thread than the one that writes.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/daemon/knowledge.hpp"
#include "planner/daemon/sqlite.hpp"
#include "planner/daemon/usage.hpp"
#include "planner/wire/messages.hpp"

namespace espalier {

struct DecisionRecord {
  Decision decision;
  std::uint32_t uid = 0;  // the job's user
  // Moments in seconds since the epoch: "event" (released, submitted), "seen" (Slurm showed it),
  // "decided", "proposed", "finished". A moment that did not happen is absent.
  std::map<std::string, double> moments;
  std::map<std::string, double> phases_ms;  // timed by the launcher
  int generation = 0;                       // the generation that the decision led to
  std::int64_t step = 0;                    // last step before the decision took effect
};

struct StoredJob {
  ElasticJob job;
  bool ended = false;
  int exit_code = 0;
  double seen = 0;  // time of the last report
};

// Which decisions are asked for, newest first.
struct DecisionQuery {
  std::optional<JobId> job = {};
  std::optional<std::uint32_t> uid = {};  // only of this user's jobs
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  int limit = 100;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  // of text; the first is always read
  bool candidates = true;                                       // false: they are not even read
};
struct DecisionPage {
  std::vector<DecisionRecord> records;
  bool more = false;  // `bytes` ended the page
};

// One thread at a time. All throw Error when the file cannot be read.
class StoreReader {
 public:
  // The file of a Store, which is open meanwhile. Sees every write that has returned.
  explicit StoreReader(const std::string& path);
  virtual ~StoreReader();

  std::optional<DecisionRecord> decision(std::int64_t id);
  DecisionPage decisions(const DecisionQuery& query);
  std::vector<DecisionRecord> decisions(std::optional<JobId> job, int limit);  // newest first
  // Newest first; of jobs of `uid` only, if one is named. Slurm may give the number of a job again.
  std::vector<wire::Transition> transitions(JobId job, int limit, std::optional<std::uint32_t> uid = std::nullopt);
  std::optional<StoredJob> job(JobId id);
  std::optional<std::uint32_t> owner(JobId id);  // of its record
  std::optional<Json> coefficients(JobId job);
  std::optional<Json> scale(JobId job);

  std::optional<Knowledge> knowledge(std::int64_t id);
  std::vector<Knowledge> newest_knowledge(int limit, std::int64_t first = 0);  // of all users, newest first
  std::vector<Knowledge> newest_knowledge_of(uid_t user, int limit);
  // Newest first, of all users or of one, without what the rows tell: that of thousands takes long to read.
  std::vector<std::int64_t> knowledge_ids(std::optional<uid_t> user, int limit);
  // Of jobs like this, newest first; of `user` only, if one is named.
  std::vector<Knowledge> knowledge_of(const std::string& description, std::optional<uid_t> user = std::nullopt);

  // What a Slurm job of an elastic training held: the anchor or an extension. Times as Slurm's, seconds since the
  // epoch.
  struct Allocation {
    JobId job = 0, anchor = 0;
    std::uint32_t uid = 0;
    int gpus = 0;
    double started = 0, ended = 0;  // 0: not ended
    bool exact = true;              // false: Slurm no longer told when it ended
    bool base = false;              // of a movable job
  };
  std::vector<Allocation> open_allocations();
  std::vector<Allocation> allocations(JobId anchor);  // oldest first
  std::optional<TrainingUsage> training(JobId job);
  std::vector<JobId> jobs_of(std::uint32_t uid, JobId from, int limit);  // of their records, by id
  std::map<std::string, double> topologies();                            // time of the report, by node

 protected:
  explicit StoreReader(std::unique_ptr<Database> database);
  const std::unique_ptr<Database> db_;
};

}  // namespace espalier
