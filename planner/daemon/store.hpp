// The decision store: all of the planner's lasting state, in one SQLite file. If the process is
// killed at any moment, the file holds every write that has returned. What it tells is in store_reader.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/arrivals.hpp"
#include "planner/daemon/store_reader.hpp"

namespace espalier {

// What the records of all users together may take. Where they take more, the user who takes most
// loses the oldest ones first: no user can push out what others have left.
struct StoreLimits {
  std::int64_t decisions = 20000, transitions = 200000;  // rows
  std::int64_t bytes =
      std::int64_t{512}
      << 20;  // of text, in decisions, transitions, jobs, what was measured of them, and what they taught
};

class Store : public StoreReader {
 public:
  static constexpr int kSchema = 8;
  // Longest text of one row. A plan or a list that would make it longer is left out.
  static constexpr std::size_t kMostRow = 512u << 10;
  // Throws Error, also for a file with a newer schema.
  explicit Store(const std::string& path);
  ~Store() override;

  // Gives the decision its id. Returns the id.
  std::int64_t add(const DecisionRecord& record);
  void update(const DecisionRecord& record);  // by decision.id; nothing where it is no longer kept
  // The pauses of the job's changes that were committed, in ms, among its last `limit` decisions;
  // newest first. A recovery is none, and nor is a change of plan in place.
  std::vector<double> pauses(JobId job, int limit);
  // Sets `outcome` in every decision that has none. Returns their ids.
  std::vector<std::int64_t> close_open(const std::string& outcome);

  void add(const wire::Transition& transition, std::uint32_t uid = 0);

  // Where the record was of another user's job, what was measured of that one and what it used is removed: Slurm has
  // given the number again.
  void save(const ElasticJob& job, double now);
  void end(JobId job, int exit_code, double now);
  std::vector<JobId> open_jobs();  // not ended
  // The job's coefficients. They are kept as long as the job's record, and count for its user. Throws Error when they
  // are longer than kMostRow.
  void save_coefficients(JobId job, const Json& coefficients);
  // The job's scale table (planner/core/schedule/flextrain/predicted_scale.hpp), kept as long.
  void save_scale(JobId job, const Json& table);

  // What earlier jobs taught. save() gives a new row its id. Where there are more than `of_user` of
  // one user, it then deletes those of that user that were updated longest ago; where there are more
  // than `in_all`, those of the user who has the most.
  static constexpr int kKnowledgeOfUser = 256, kKnowledgeInAll = 4096;
  void save(Knowledge& row, int of_user = kKnowledgeOfUser, int in_all = kKnowledgeInAll);
  bool forget_knowledge(std::int64_t id);  // false: there is none

  // Submissions of all jobs, oldest first. add() deletes those before `from` and, of more than `most`, the oldest. Rows
  // of 0 GPUs stay.
  std::vector<Submission> submissions();
  void add(const std::vector<Submission>& news, double from, std::size_t most);

  void hold(JobId job, bool held);
  bool held(JobId job);
  std::vector<JobId> holds();

  void save(const Allocation& allocation);  // known by its job and its start: a requeued job has several
  void save(JobId job, const TrainingUsage& usage);

  void save_topology(const std::string& node, const std::string& xml, double now);
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
