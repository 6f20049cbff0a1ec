#include <set>

#include "planner/core/error.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {

void Store::save(Knowledge& row, int of_user, int in_all) {
  const std::string record = record_of(row).dump();
  if (record.size() + row.job.size() > kMostRow)
    throw Error("store: what a job of uid " + std::to_string(row.uid) + " taught is longer than a row may be");
  Transaction transaction(s_->db);
  s_->db
      .prepare(
          "INSERT INTO knowledge(uid, job, gpus, driver, record, updated) VALUES(?,?,?,?,?,?)"
          " ON CONFLICT(uid, job, gpus, driver) DO UPDATE SET record=excluded.record, updated=excluded.updated")
      .bind(row.uid, row.job, row.gpus, row.driver, record, row.updated)
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
  std::set<std::uint32_t> changed{row.uid};
  for (std::int64_t rows = count.step() ? count.integer(0) : 0; rows > in_all; --rows) {
    auto most =
        s_->db.prepare("SELECT uid FROM knowledge GROUP BY uid ORDER BY COUNT(*) DESC, MIN(updated), uid LIMIT 1");
    if (!most.step()) break;
    const auto uid = static_cast<std::uint32_t>(most.integer(0));
    s_->db
        .prepare("DELETE FROM knowledge WHERE id = (SELECT id FROM knowledge WHERE uid=? ORDER BY updated, id LIMIT 1)")
        .bind(uid)
        .run();
    changed.insert(uid);
  }
  transaction.commit();
  for (const std::uint32_t uid : changed) s_->count_knowledge(uid);
  s_->written += record.size();
  trim();
}

bool Store::forget_knowledge(std::int64_t id) {
  const auto known = knowledge(id);
  if (!known) return false;
  s_->db.prepare("DELETE FROM knowledge WHERE id=?").bind(id).run();
  s_->count_knowledge(known->uid);
  return true;
}

}  // namespace espalier
