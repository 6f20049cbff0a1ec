#include <utility>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {

void Store::save(Knowledge& row, int of_user, int in_all) {
  const std::string record = record_of(row).dump();
  if (record.size() + row.job.size() > kMostRow)
    throw Error("store: what a job of uid " + std::to_string(row.uid) + " taught is longer than a row may be");
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;  // users, and the bytes that they have more
  const auto remove = [&](std::uint32_t uid, std::int64_t id) {
    changes.emplace_back(uid, -s_->knowledge_bytes(id));
    s_->db.prepare("DELETE FROM knowledge WHERE id=?").bind(id).run();
  };
  Transaction transaction(s_->db);
  const auto find = [&] {
    auto id = s_->db.prepare("SELECT id FROM knowledge WHERE uid=? AND job=? AND gpus=? AND driver=?");
    return id.bind(row.uid, row.job, row.gpus, row.driver).step() ? id.integer(0) : 0;
  };
  const std::int64_t before = s_->knowledge_bytes(find());
  s_->db
      .prepare(
          "INSERT INTO knowledge(uid, job, gpus, driver, record, updated) VALUES(?,?,?,?,?,?)"
          " ON CONFLICT(uid, job, gpus, driver) DO UPDATE SET record=excluded.record, updated=excluded.updated")
      .bind(row.uid, row.job, row.gpus, row.driver, record, row.updated)
      .run();
  row.id = find();
  changes.emplace_back(row.uid, s_->knowledge_bytes(row.id) - before);
  auto surplus =
      s_->db.prepare("SELECT id FROM knowledge WHERE uid=? ORDER BY updated DESC, id DESC LIMIT -1 OFFSET ?");
  surplus.bind(row.uid, of_user);
  std::vector<std::int64_t> gone;
  while (surplus.step()) gone.push_back(surplus.integer(0));
  for (const std::int64_t id : gone) remove(row.uid, id);
  // Who has the most makes room: nobody's rows push out those of a user who has fewer.
  auto count = s_->db.prepare("SELECT COUNT(*) FROM knowledge");
  for (std::int64_t rows = count.step() ? count.integer(0) : 0; rows > in_all; --rows) {
    auto most = s_->db.prepare(
        "SELECT uid, id FROM knowledge WHERE uid ="
        " (SELECT uid FROM knowledge GROUP BY uid ORDER BY COUNT(*) DESC, MIN(updated), uid LIMIT 1)"
        " ORDER BY updated, id LIMIT 1");
    if (!most.step()) break;
    remove(static_cast<std::uint32_t>(most.integer(0)), most.integer(1));
  }
  transaction.commit();
  for (const auto& [uid, bytes] : changes) s_->add(uid, &Statements::Usage::knowledge_bytes, bytes);
  s_->written += record.size();
  trim();
}

bool Store::forget_knowledge(std::int64_t id) {
  const auto known = knowledge(id);
  if (!known) return false;
  s_->forget_knowledge(known->uid, id);
  return true;
}

}  // namespace espalier
