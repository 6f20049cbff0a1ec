// The database behind the store. For the store's own files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/daemon/sqlite.hpp"
#include "planner/daemon/store.hpp"

namespace espalier {

struct Store::Statements {
  // What one user's rows take.
  struct Usage {
    std::int64_t decisions = 0, decision_bytes = 0, transitions = 0;
    std::int64_t job_bytes = 0;  // with what was measured of the jobs
    std::int64_t knowledge_bytes = 0;
    std::int64_t bytes() const { return decision_bytes + transitions * kTransitionBytes + job_bytes + knowledge_bytes; }
  };
  static constexpr std::int64_t kTransitionBytes = 160;  // its texts are cut to 40 bytes each

  Database& db;
  StoreLimits limits;
  // What was measured of a job: its coefficients and its scale table. They count for the user of the job's record.
  struct Measured {
    std::uint32_t uid = 0;
    std::int64_t coefficients = 0, scale = 0;  // bytes
  };
  std::map<JobId, Measured> measured;
  std::map<std::uint32_t, Usage> used;
  Usage all;
  std::size_t written = 0;

  Statements(Database& database, const std::string& path) : db(database) {
    migrate(path);
    count();
  }

  // Gives the file, which need not be there yet, and SQLite's files beside it the mode 0600. Returns
  // `path`.
  static const std::string& for_owner_alone(const std::string& path);
  void migrate(const std::string& path);
  void count();  // fills in `used` and `all`
  void add(std::uint32_t uid, std::int64_t Usage::*what, std::int64_t number) {
    used[uid].*what += number;
    all.*what += number;
  }
  // Writes one of the two and counts it. Throws Error when the text is longer than a row may be.
  void save_measured(const char* table, std::int64_t Measured::*bytes, JobId job, const std::string& text);
  void forget_measured(JobId job);
  void forget_usage(JobId job);
  std::int64_t knowledge_bytes(std::int64_t id);  // of a row; 0: there is none
  void forget_knowledge(std::uint32_t uid, std::int64_t id);
  // Each removes the user's oldest rows, at most `most`. False: there are none to remove.
  bool drop_decisions(std::uint32_t uid, std::int64_t most);
  bool drop_transitions(std::uint32_t uid, std::int64_t most);
  bool drop_jobs(std::uint32_t uid, std::int64_t most);  // ended ones, with what was measured of them
  bool drop_knowledge(std::uint32_t uid, std::int64_t most);
  bool drop_largest(std::uint32_t uid);

  std::vector<JobId> ids(const char* select) {
    auto query = db.prepare(select);
    std::vector<JobId> found;
    while (query.step()) found.push_back(static_cast<JobId>(query.integer(0)));
    return found;
  }
};

}  // namespace espalier
