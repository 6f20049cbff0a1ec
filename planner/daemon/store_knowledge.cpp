#include "planner/core/error.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {

void Store::save(Knowledge& row, int of_user, int in_all) {
  Transaction transaction(s_->db);
  s_->db
      .prepare(
          "INSERT INTO knowledge(uid, job, gpus, driver, record, updated) VALUES(?,?,?,?,?,?)"
          " ON CONFLICT(uid, job, gpus, driver) DO UPDATE SET record=excluded.record, updated=excluded.updated")
      .bind(row.uid, row.job, row.gpus, row.driver, record_of(row).dump(), row.updated)
      .run();
  auto id = s_->db.prepare("SELECT id FROM knowledge WHERE uid=? AND job=? AND gpus=? AND driver=?");
  if (id.bind(row.uid, row.job, row.gpus, row.driver).step()) row.id = id.integer(0);
  s_->db
      .prepare(
          "DELETE FROM knowledge WHERE uid=? AND id NOT IN"
          " (SELECT id FROM knowledge WHERE uid=? ORDER BY updated DESC, id DESC LIMIT ?)")
      .bind(row.uid, row.uid, of_user)
      .run();
  s_->db
      .prepare(
          "DELETE FROM knowledge WHERE id NOT IN (SELECT id FROM knowledge ORDER BY updated DESC, id DESC LIMIT ?)")
      .bind(in_all)
      .run();
  transaction.commit();
}

bool Store::forget_knowledge(std::int64_t id) {
  if (!knowledge(id)) return false;
  s_->db.prepare("DELETE FROM knowledge WHERE id=?").bind(id).run();
  return true;
}

}  // namespace espalier
