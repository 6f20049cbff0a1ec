// What elastic jobs used. Rows live as long as the record of their job.
#include "planner/daemon/store_statements.hpp"

namespace espalier {
void Store::save(const Allocation& one) {
  s_->db
      .prepare(
          "INSERT OR REPLACE INTO allocations(job, anchor, uid, gpus, started, ended, exact, base) "
          "VALUES(?,?,?,?,?,?,?,?)")
      .bind(one.job, one.anchor, one.uid, one.gpus, one.started, one.ended, one.exact, one.base)
      .run();
}

void Store::Statements::forget_usage(JobId job) {
  db.prepare("DELETE FROM trainings WHERE job=?").bind(job).run();
  db.prepare("DELETE FROM allocations WHERE anchor=?").bind(job).run();
}

void Store::save(JobId job, const TrainingUsage& usage) {
  s_->db.prepare("INSERT OR REPLACE INTO trainings(job, trained, paused, until, gpus) VALUES(?,?,?,?,?)")
      .bind(job, usage.trained, usage.paused, usage.until, usage.gpus)
      .run();
}

}  // namespace espalier
