// What elastic jobs used. Rows live as long as the record of their job.
#include "planner/daemon/store_statements.hpp"

namespace espalier {
namespace {

Store::Allocation read(const Statement& row) {
  return {static_cast<JobId>(row.integer(0)),
          static_cast<JobId>(row.integer(1)),
          static_cast<std::uint32_t>(row.integer(2)),
          static_cast<int>(row.integer(3)),
          row.real(4),
          row.real(5),
          row.integer(6) != 0,
          row.integer(7) != 0};
}

constexpr const char* kColumns = "job, anchor, uid, gpus, started, ended, exact, base";

}  // namespace

void Store::save(const Allocation& one) {
  s_->db
      .prepare(
          "INSERT OR REPLACE INTO allocations(job, anchor, uid, gpus, started, ended, exact, base) "
          "VALUES(?,?,?,?,?,?,?,?)")
      .bind(one.job, one.anchor, one.uid, one.gpus, one.started, one.ended, one.exact, one.base)
      .run();
}

std::vector<Store::Allocation> Store::open_allocations() {
  std::vector<Allocation> found;
  auto query = s_->db.prepare(std::string("SELECT ") + kColumns + " FROM allocations WHERE ended=0 ORDER BY job");
  while (query.step()) found.push_back(read(query));
  return found;
}

std::vector<Store::Allocation> Store::allocations(JobId anchor) {
  std::vector<Allocation> found;
  auto query =
      s_->db.prepare(std::string("SELECT ") + kColumns + " FROM allocations WHERE anchor=? ORDER BY started, job");
  query.bind(anchor);
  while (query.step()) found.push_back(read(query));
  return found;
}

void Store::save(JobId job, const TrainingUsage& usage) {
  s_->db.prepare("INSERT OR REPLACE INTO trainings(job, trained, paused, until, gpus) VALUES(?,?,?,?,?)")
      .bind(job, usage.trained, usage.paused, usage.until, usage.gpus)
      .run();
}

std::optional<TrainingUsage> Store::training(JobId job) {
  auto query = s_->db.prepare("SELECT trained, paused, until, gpus FROM trainings WHERE job=?");
  if (!query.bind(job).step()) return std::nullopt;
  TrainingUsage usage;
  usage.trained = query.real(0);
  usage.paused = query.real(1);
  usage.until = query.real(2);
  usage.gpus = static_cast<int>(query.integer(3));
  return usage;
}

std::vector<JobId> Store::jobs_of(std::uint32_t uid, JobId from, int limit) {
  std::vector<JobId> found;
  auto query = s_->db.prepare("SELECT id FROM jobs WHERE uid=? AND id>=? ORDER BY id LIMIT ?");
  query.bind(uid, from, limit);
  while (query.step()) found.push_back(static_cast<JobId>(query.integer(0)));
  return found;
}

}  // namespace espalier
