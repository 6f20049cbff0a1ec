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
  // Who has the most makes room: nobody's rows push out those of a user who has fewer.
  auto count = s_->db.prepare("SELECT COUNT(*) FROM knowledge");
  for (std::int64_t rows = count.step() ? count.integer(0) : 0; rows > in_all; --rows)
    s_->db
        .prepare(
            "DELETE FROM knowledge WHERE id = (SELECT id FROM knowledge WHERE uid ="
            " (SELECT uid FROM knowledge GROUP BY uid ORDER BY COUNT(*) DESC, MIN(updated), uid LIMIT 1)"
            " ORDER BY updated, id LIMIT 1)")
        .run();
  transaction.commit();
}

bool Store::forget_knowledge(std::int64_t id) {
  if (!knowledge(id)) return false;
  s_->db.prepare("DELETE FROM knowledge WHERE id=?").bind(id).run();
  return true;
}

}  // namespace espalier
