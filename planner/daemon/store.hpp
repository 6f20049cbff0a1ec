// The decision store: all of the planner's lasting state, in one SQLite file. If the process is
// killed at any moment, the file holds every write that has returned.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/arrivals.hpp"
#include "planner/core/decision.hpp"
#include "planner/daemon/knowledge.hpp"
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

// What the records of all users together may take. Where they take more, the user who takes most
// loses the oldest ones first: no user can push out what others have left.
struct StoreLimits {
  std::int64_t decisions = 20000, transitions = 200000;  // rows
  std::int64_t bytes = std::int64_t{512} << 20;          // of text, in decisions, transitions and jobs
};

class Store {
 public:
  static constexpr int kSchema = 7;
  // Longest text of one row. A plan or a list that would make it longer is left out.
  static constexpr std::size_t kMostRow = 512u << 10;
  // Throws Error, also for a file with a newer schema.
  explicit Store(const std::string& path);
  ~Store();

  // Gives the decision its id. Returns the id.
  std::int64_t add(const DecisionRecord& record);
  void update(const DecisionRecord& record);  // by decision.id; nothing where it is no longer kept
  std::optional<DecisionRecord> decision(std::int64_t id);
  DecisionPage decisions(const DecisionQuery& query);
  std::vector<DecisionRecord> decisions(std::optional<JobId> job, int limit);  // newest first
  // The pauses of the job's changes that were committed, in ms, among its last `limit` decisions;
  // newest first. A recovery is none.
  std::vector<double> pauses(JobId job, int limit);
  // Sets `outcome` in every decision that has none. Returns their ids.
  std::vector<std::int64_t> close_open(const std::string& outcome);

  void add(const wire::Transition& transition, std::uint32_t uid = 0);
  std::vector<wire::Transition> transitions(JobId job, int limit);  // newest first

  void save(const ElasticJob& job, double now);
  void end(JobId job, int exit_code, double now);
  std::optional<StoredJob> job(JobId id);
  std::vector<JobId> open_jobs();  // not ended
  // The job's coefficients. They are kept as long as the job's record.
  void save_coefficients(JobId job, const Json& coefficients);
  std::optional<Json> coefficients(JobId job);
  // The job's scale table (planner/core/schedule/flextrain/predicted_scale.hpp), kept as long.
  void save_scale(JobId job, const Json& table);
  std::optional<Json> scale(JobId job);

  // What earlier jobs taught. save() gives a new row its id, and then deletes the rows that were
  // updated longest ago where there are more than `of_user` of one user or `in_all`.
  static constexpr int kKnowledgeOfUser = 256, kKnowledgeInAll = 4096;
  void save(Knowledge& row, int of_user = kKnowledgeOfUser, int in_all = kKnowledgeInAll);
  std::optional<Knowledge> knowledge(std::int64_t id);
  std::vector<Knowledge> newest_knowledge(int limit, std::int64_t first = 0);  // of all users, newest first
  // The same, of jobs like this; of `user` only, if one is named.
  std::vector<Knowledge> knowledge_of(const std::string& description, std::optional<uid_t> user = std::nullopt);
  bool forget_knowledge(std::int64_t id);  // false: there is none

  // Submissions of all jobs, oldest first. add() deletes those before `from` and, of more than `most`, the oldest.
  std::vector<Submission> submissions();
  void add(const std::vector<Submission>& news, double from, std::size_t most);

  void hold(JobId job, bool held);
  bool held(JobId job);
  std::vector<JobId> holds();

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
  void save(const Allocation& allocation);  // known by its job and its start: a requeued job has several
  std::vector<Allocation> open_allocations();
  std::vector<Allocation> allocations(JobId anchor);  // oldest first
  void save(JobId job, const TrainingUsage& usage);
  std::optional<TrainingUsage> training(JobId job);
  std::vector<JobId> jobs_of(std::uint32_t uid, JobId from, int limit);  // of their records, by id

  void saw_extension(JobId extension, JobId anchor, const std::string& node, double now);
  void extension_gone(JobId extension, double now);
  std::vector<JobId> open_extensions();

  void save_topology(const std::string& node, const std::string& xml, double now);
  std::map<std::string, double> topologies();               // time of the report, by node
  std::map<std::string, std::string> topology_documents();  // hwloc's XML, by node

  // Removes what is beyond `limits`, now and with every later write.
  void limit(const StoreLimits& limits);
  // limit() for rows only, and removes what belongs to jobs that are no longer kept.
  void prune(int decisions, int transitions);
  // Bytes of text that count for StoreLimits::bytes.
  std::int64_t used() const;
  // The text of the rows that were written since the last call.
  std::size_t take_written();

 private:
  struct Statements;
  void trim();
  std::unique_ptr<Statements> s_;
};

}  // namespace espalier
