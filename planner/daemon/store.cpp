#include "planner/daemon/store.hpp"

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/daemon/sqlite.hpp"

namespace espalier {
namespace {

constexpr const char* kTables = R"(
CREATE TABLE decisions(id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, job INTEGER, outcome TEXT, record TEXT,
                       moments TEXT, phases TEXT, generation INTEGER, step INTEGER);
CREATE INDEX decisions_job ON decisions(job);
CREATE TABLE transitions(id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, job INTEGER, source TEXT, event TEXT,
                         target TEXT, generation INTEGER, decision INTEGER);
CREATE INDEX transitions_job ON transitions(job);
CREATE TABLE jobs(id INTEGER PRIMARY KEY, record TEXT, ended INTEGER, exit_code INTEGER, seen REAL);
CREATE TABLE coefficients(job INTEGER PRIMARY KEY, record TEXT);
CREATE TABLE holds(job INTEGER PRIMARY KEY);
CREATE TABLE extensions(id INTEGER PRIMARY KEY, anchor INTEGER, node TEXT, since REAL, gone REAL);
CREATE TABLE topology(node TEXT PRIMARY KEY, time REAL, xml TEXT);
)";

}  // namespace

struct Store::Statements {
  Database db;
  explicit Statements(const std::string& path) : db(path) { migrate(path); }

  void migrate(const std::string& path) {
    auto version = db.prepare("PRAGMA user_version");
    const std::int64_t found = version.step() ? version.integer(0) : 0;
    if (found > kSchema)
      throw Error(path + ": schema " + std::to_string(found) + " is newer than this espalierd knows (" +
                  std::to_string(kSchema) + "); install the newer espalierd, or move the file away");
    version.run();
    if (found == kSchema) return;
    Transaction transaction(db);
    if (found == 0) db.execute(kTables);
    // The candidates of schema 1 have a form that is no longer read.
    if (found == 1) db.execute("UPDATE decisions SET record=json_set(record, '$.candidates', json('[]'))");
    if (found == 1 || found == 2) db.execute("CREATE TABLE coefficients(job INTEGER PRIMARY KEY, record TEXT)");
    db.execute("PRAGMA user_version=" + std::to_string(kSchema));
    transaction.commit();
  }

  std::vector<JobId> ids(const char* select) {
    auto query = db.prepare(select);
    std::vector<JobId> found;
    while (query.step()) found.push_back(static_cast<JobId>(query.integer(0)));
    return found;
  }
};

namespace {

constexpr const char* kColumns = "id, record, moments, phases, generation, step";

DecisionRecord read_decision(const Statement& row) {
  DecisionRecord record;
  record.decision = Json::parse(row.text(1)).get<Decision>();
  record.decision.id = row.integer(0);
  record.moments = Json::parse(row.text(2)).get<std::map<std::string, double>>();
  record.phases_ms = Json::parse(row.text(3)).get<std::map<std::string, double>>();
  record.generation = static_cast<int>(row.integer(4));
  record.step = row.integer(5);
  return record;
}

}  // namespace

Store::Store(const std::string& path) : s_(std::make_unique<Statements>(path)) {}
Store::~Store() = default;

std::int64_t Store::add(const DecisionRecord& r) {
  s_->db
      .prepare(
          "INSERT INTO decisions(time, job, outcome, record, moments, phases, generation, step)"
          " VALUES(?,?,?,?,?,?,?,?)")
      .bind(r.decision.time, r.decision.job, r.decision.outcome, Json(r.decision).dump(), Json(r.moments).dump(),
            Json(r.phases_ms).dump(), r.generation, r.step)
      .run();
  return s_->db.last_id();
}

void Store::update(const DecisionRecord& r) {
  s_->db.prepare("UPDATE decisions SET outcome=?, record=?, moments=?, phases=?, generation=?, step=? WHERE id=?")
      .bind(r.decision.outcome, Json(r.decision).dump(), Json(r.moments).dump(), Json(r.phases_ms).dump(), r.generation,
            r.step, r.decision.id)
      .run();
}

std::optional<DecisionRecord> Store::decision(std::int64_t id) {
  auto query = s_->db.prepare(std::string("SELECT ") + kColumns + " FROM decisions WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return read_decision(query);
}

std::vector<DecisionRecord> Store::decisions(std::optional<JobId> job, int limit) {
  auto query =
      s_->db.prepare(std::string("SELECT ") + kColumns + " FROM decisions WHERE (? OR job=?) ORDER BY id DESC LIMIT ?");
  std::vector<DecisionRecord> found;
  query.bind(!job.has_value(), job.value_or(0), limit);
  while (query.step()) found.push_back(read_decision(query));
  return found;
}

std::vector<std::int64_t> Store::close_open(const std::string& outcome) {
  std::vector<DecisionRecord> open;
  auto query = s_->db.prepare(std::string("SELECT ") + kColumns + " FROM decisions WHERE outcome=''");
  while (query.step()) open.push_back(read_decision(query));
  std::vector<std::int64_t> ids;
  Transaction transaction(s_->db);
  for (DecisionRecord& record : open) {
    record.decision.outcome = outcome;
    update(record);
    ids.push_back(record.decision.id);
  }
  transaction.commit();
  return ids;
}

void Store::add(const wire::Transition& t) {
  s_->db
      .prepare("INSERT INTO transitions(time, job, source, event, target, generation, decision) VALUES(?,?,?,?,?,?,?)")
      .bind(t.time, t.job, t.from, t.event, t.to, t.generation, t.decision)
      .run();
}

std::vector<wire::Transition> Store::transitions(JobId job, int limit) {
  auto query = s_->db.prepare(
      "SELECT time, source, event, target, generation, decision FROM transitions WHERE job=? ORDER BY id DESC LIMIT ?");
  std::vector<wire::Transition> found;
  query.bind(job, limit);
  while (query.step())
    found.push_back({job, query.real(0), query.text(1), query.text(2), query.text(3),
                     static_cast<int>(query.integer(4)), query.integer(5)});
  return found;
}

void Store::save(const ElasticJob& job, double now) {
  s_->db.prepare("INSERT OR REPLACE INTO jobs(id, record, ended, exit_code, seen) VALUES(?,?,0,0,?)")
      .bind(job.id, Json(job).dump(), now)
      .run();
}

void Store::end(JobId job, int exit_code, double now) {
  s_->db.prepare("UPDATE jobs SET ended=1, exit_code=?, seen=? WHERE id=?").bind(exit_code, now, job).run();
  hold(job, false);
}

std::optional<StoredJob> Store::job(JobId id) {
  auto query = s_->db.prepare("SELECT record, ended, exit_code, seen FROM jobs WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return StoredJob{Json::parse(query.text(0)).get<ElasticJob>(), query.integer(1) != 0,
                   static_cast<int>(query.integer(2)), query.real(3)};
}

void Store::save_coefficients(JobId job, const Json& coefficients) {
  s_->db.prepare("INSERT OR REPLACE INTO coefficients(job, record) VALUES(?,?)").bind(job, coefficients.dump()).run();
}

std::optional<Json> Store::coefficients(JobId job) {
  auto query = s_->db.prepare("SELECT record FROM coefficients WHERE job=?");
  if (!query.bind(job).step()) return std::nullopt;
  // In place: a Json converts itself to nearly everything, an optional too, and GCC 16 warns of the choice.
  return std::optional<Json>(std::in_place, Json::parse(query.text(0)));
}

void Store::hold(JobId job, bool held) {
  s_->db.prepare(held ? "INSERT OR IGNORE INTO holds(job) VALUES(?)" : "DELETE FROM holds WHERE job=?").bind(job).run();
}

bool Store::held(JobId job) {
  auto query = s_->db.prepare("SELECT 1 FROM holds WHERE job=?");
  return query.bind(job).step();
}

void Store::saw_extension(JobId extension, JobId anchor, const std::string& node, double now) {
  s_->db.prepare("INSERT OR IGNORE INTO extensions(id, anchor, node, since, gone) VALUES(?,?,?,?,0)")
      .bind(extension, anchor, node, now)
      .run();
}

void Store::extension_gone(JobId extension, double now) {
  s_->db.prepare("UPDATE extensions SET gone=? WHERE id=? AND gone=0").bind(now, extension).run();
}

std::vector<JobId> Store::open_extensions() { return s_->ids("SELECT id FROM extensions WHERE gone=0 ORDER BY id"); }
std::vector<JobId> Store::open_jobs() { return s_->ids("SELECT id FROM jobs WHERE ended=0 ORDER BY id"); }
std::vector<JobId> Store::holds() { return s_->ids("SELECT job FROM holds ORDER BY job"); }

void Store::save_topology(const std::string& node, const std::string& xml, double now) {
  s_->db.prepare("INSERT OR REPLACE INTO topology(node, time, xml) VALUES(?,?,?)").bind(node, now, xml).run();
}

std::map<std::string, double> Store::topologies() {
  auto query = s_->db.prepare("SELECT node, time FROM topology");
  std::map<std::string, double> found;
  while (query.step()) found[query.text(0)] = query.real(1);
  return found;
}

std::map<std::string, std::string> Store::topology_documents() {
  auto query = s_->db.prepare("SELECT node, xml FROM topology");
  std::map<std::string, std::string> found;
  while (query.step()) found[query.text(0)] = query.text(1);
  return found;
}

void Store::prune(int decisions, int transitions) {
  const auto keep = [&](const std::string& table, int count) {
    s_->db.prepare("DELETE FROM " + table + " WHERE id <= (SELECT max(id) FROM " + table + ") - ?").bind(count).run();
  };
  keep("decisions", decisions);
  keep("transitions", transitions);
  s_->db.execute("DELETE FROM jobs WHERE ended=1 AND id NOT IN (SELECT DISTINCT job FROM decisions)");
  s_->db.execute("DELETE FROM coefficients WHERE job NOT IN (SELECT id FROM jobs)");
  s_->db.execute("DELETE FROM extensions WHERE gone>0 AND anchor NOT IN (SELECT id FROM jobs)");
}

}  // namespace espalier
