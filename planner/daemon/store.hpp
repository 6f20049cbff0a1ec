// The decision store: all of the planner's lasting state, in one SQLite file. If the process is
// killed at any moment, the file holds every write that has returned.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/wire/messages.hpp"

namespace espalier {

struct DecisionRecord {
  Decision decision;
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

class Store {
 public:
  static constexpr int kSchema = 3;
  // Throws Error, also for a file with a newer schema.
  explicit Store(const std::string& path);
  ~Store();

  // Gives the decision its id. Returns the id.
  std::int64_t add(const DecisionRecord& record);
  void update(const DecisionRecord& record);  // by decision.id
  std::optional<DecisionRecord> decision(std::int64_t id);
  std::vector<DecisionRecord> decisions(std::optional<JobId> job, int limit);  // newest first
  // Sets `outcome` in every decision that has none. Returns their ids.
  std::vector<std::int64_t> close_open(const std::string& outcome);

  void add(const wire::Transition& transition);
  std::vector<wire::Transition> transitions(JobId job, int limit);  // newest first

  void save(const ElasticJob& job, double now);
  void end(JobId job, int exit_code, double now);
  std::optional<StoredJob> job(JobId id);
  std::vector<JobId> open_jobs();  // not ended
  // The job's coefficients. They are kept as long as the job's record.
  void save_coefficients(JobId job, const Json& coefficients);
  std::optional<Json> coefficients(JobId job);
  void hold(JobId job, bool held);
  bool held(JobId job);
  std::vector<JobId> holds();

  void saw_extension(JobId extension, JobId anchor, const std::string& node, double now);
  void extension_gone(JobId extension, double now);
  std::vector<JobId> open_extensions();

  void save_topology(const std::string& node, const std::string& xml, double now);
  std::map<std::string, double> topologies();               // time of the report, by node
  std::map<std::string, std::string> topology_documents();  // hwloc's XML, by node

  // Keeps the newest rows of both tables, so that the file stays bounded.
  void prune(int decisions, int transitions);

 private:
  struct Statements;
  std::unique_ptr<Statements> s_;
};

}  // namespace espalier
