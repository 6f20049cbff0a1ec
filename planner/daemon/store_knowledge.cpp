#include "planner/core/error.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {
namespace {

constexpr const char* kSelect = "SELECT id, uid, job, gpus, driver, record, updated FROM knowledge ";

Knowledge read(const Statement& row) {
  Knowledge known;
  known.id = row.integer(0);
  known.uid = static_cast<std::uint32_t>(row.integer(1));
  known.job = row.text(2);
  known.gpus = row.text(3);
  known.driver = row.text(4);
  read_record(Json::parse(row.text(5)), known);
  known.updated = row.real(6);
  return known;
}

std::vector<Knowledge> all(Statement query) {
  std::vector<Knowledge> rows;
  while (query.step()) rows.push_back(read(query));
  return rows;
}

}  // namespace

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

std::optional<Knowledge> Store::knowledge(std::int64_t id) {
  auto query = s_->db.prepare(std::string(kSelect) + "WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return read(query);
}

std::vector<Knowledge> Store::newest_knowledge(int limit, std::int64_t first) {
  auto query = s_->db.prepare(std::string(kSelect) + "ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?");
  query.bind(limit, first);
  return all(std::move(query));
}

std::vector<Knowledge> Store::knowledge_of(const std::string& job, std::optional<uid_t> user) {
  auto query = s_->db.prepare(std::string(kSelect) + (user ? "WHERE job=? AND uid=?" : "WHERE job=?") +
                              " ORDER BY updated DESC, id DESC");
  if (user) query.bind(job, std::int64_t{*user});
  else query.bind(job);
  return all(std::move(query));
}

bool Store::forget_knowledge(std::int64_t id) {
  if (!knowledge(id)) return false;
  s_->db.prepare("DELETE FROM knowledge WHERE id=?").bind(id).run();
  return true;
}

}  // namespace espalier
