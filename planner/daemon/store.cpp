#include "planner/daemon/store.hpp"

#include <utility>

#include "planner/core/json.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {
namespace {

constexpr const char* kColumns = "id, record, moments, phases, generation, step, uid, candidates";
constexpr const char* kWithoutCandidates = "id, record, moments, phases, generation, step, uid, NULL";

// A record of an older schema holds its candidates itself.
DecisionRecord read_decision(const Statement& row, bool candidates) {
  DecisionRecord record;
  Json json = Json::parse(row.text(1));
  if (const std::string listed = row.text(7); !listed.empty()) json["candidates"] = Json::parse(listed);
  if (!candidates || !json.contains("candidates")) json["candidates"] = Json::array();
  record.decision = json.get<Decision>();
  record.decision.id = row.integer(0);
  record.moments = Json::parse(row.text(2)).get<std::map<std::string, double>>();
  record.phases_ms = Json::parse(row.text(3)).get<std::map<std::string, double>>();
  record.generation = static_cast<int>(row.integer(4));
  record.step = row.integer(5);
  record.uid = static_cast<std::uint32_t>(row.integer(6));
  return record;
}

// A record's long texts as they are stored.
struct Texts {
  std::string record, candidates, moments, phases;
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(record.size() + candidates.size() + moments.size() + phases.size());
  }
};

Texts texts_of(const DecisionRecord& r) {
  Decision decision = r.decision;
  decision.candidates.clear();
  Texts texts{Json(decision).dump(), Json(r.decision.candidates).dump(), Json(r.moments).dump(),
              Json(r.phases_ms).dump()};
  if (texts.record.size() > Store::kMostRow) {
    decision.plan = {};
    decision.reason += " (its plan is too large to be kept)";
    texts.record = Json(decision).dump();
  }
  if (texts.candidates.size() > Store::kMostRow) texts.candidates = "[]";
  return texts;
}

}  // namespace

Store::Store(const std::string& path) : s_(std::make_unique<Statements>(Statements::for_owner_alone(path))) {}
Store::~Store() = default;

std::int64_t Store::add(const DecisionRecord& r) {
  const Texts texts = texts_of(r);
  s_->db
      .prepare(
          "INSERT INTO decisions(uid, time, job, kind, pause, bytes, generation, step, outcome, moments, phases, "
          "record,"
          " candidates) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)")
      .bind(r.uid, r.decision.time, r.decision.job, to_string(r.decision.kind), r.decision.pause_ms, texts.bytes(),
            r.generation, r.step, r.decision.outcome, texts.moments, texts.phases, texts.record, texts.candidates)
      .run();
  const std::int64_t id = s_->db.last_id();
  s_->add(r.uid, &Statements::Usage::decisions, 1);
  s_->add(r.uid, &Statements::Usage::decision_bytes, texts.bytes());
  s_->written += static_cast<std::size_t>(texts.bytes());
  trim();
  return id;
}

void Store::update(const DecisionRecord& r) {
  auto known = s_->db.prepare("SELECT uid, bytes FROM decisions WHERE id=?");
  if (!known.bind(r.decision.id).step()) return;
  const auto uid = static_cast<std::uint32_t>(known.integer(0));
  const std::int64_t before = known.integer(1);
  known.run();
  const Texts texts = texts_of(r);
  s_->db
      .prepare(
          "UPDATE decisions SET kind=?, pause=?, bytes=?, generation=?, step=?, outcome=?, moments=?, phases=?,"
          " record=?, candidates=? WHERE id=?")
      .bind(to_string(r.decision.kind), r.decision.pause_ms, texts.bytes(), r.generation, r.step, r.decision.outcome,
            texts.moments, texts.phases, texts.record, texts.candidates, r.decision.id)
      .run();
  s_->add(uid, &Statements::Usage::decision_bytes, texts.bytes() - before);
  s_->written += static_cast<std::size_t>(texts.bytes());
  trim();
}

std::optional<DecisionRecord> Store::decision(std::int64_t id) {
  auto query = s_->db.prepare(std::string("SELECT ") + kColumns + " FROM decisions WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return read_decision(query, true);
}

DecisionPage Store::decisions(const DecisionQuery& asked) {
  std::string sql =
      std::string("SELECT ") + (asked.candidates ? kColumns : kWithoutCandidates) + ", bytes FROM decisions WHERE id<?";
  if (asked.job) sql += " AND job=?2";
  if (asked.uid) sql += " AND uid=?3";
  // SQLite wants each parameter to be named, also those that this question does not use.
  auto query = s_->db.prepare(sql + " AND (1 OR ?2=?3) ORDER BY id DESC LIMIT ?4");
  query.bind(asked.before, asked.job.value_or(0), asked.uid.value_or(0), asked.limit);
  DecisionPage page;
  std::size_t bytes = 0;
  while (query.step()) {
    bytes += static_cast<std::size_t>(query.integer(8));
    if (bytes > asked.bytes && !page.records.empty()) {
      page.more = true;
      break;
    }
    page.records.push_back(read_decision(query, asked.candidates));
  }
  return page;
}

std::vector<DecisionRecord> Store::decisions(std::optional<JobId> job, int limit) {
  DecisionQuery query;
  query.job = job;
  query.limit = limit;
  return decisions(query).records;
}

std::vector<double> Store::pauses(JobId job, int limit) {
  auto query = s_->db.prepare(
      "SELECT pause FROM (SELECT pause, kind, outcome FROM decisions WHERE job=? ORDER BY id DESC LIMIT ?)"
      " WHERE outcome='committed' AND kind<>? AND pause>0");
  query.bind(job, limit, to_string(DecisionKind::recover));
  std::vector<double> found;
  while (query.step()) found.push_back(query.real(0));
  return found;
}

std::vector<std::int64_t> Store::close_open(const std::string& outcome) {
  std::vector<DecisionRecord> open;
  auto query = s_->db.prepare(std::string("SELECT ") + kColumns + " FROM decisions WHERE outcome=''");
  while (query.step()) open.push_back(read_decision(query, true));
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

void Store::add(const wire::Transition& t, std::uint32_t uid) {
  s_->db
      .prepare(
          "INSERT INTO transitions(uid, time, job, source, event, target, generation, decision)"
          " VALUES(?,?,?,?,?,?,?,?)")
      .bind(uid, t.time, t.job, t.from, t.event, t.to, t.generation, t.decision)
      .run();
  s_->add(uid, &Statements::Usage::transitions, 1);
  trim();
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
  std::uint32_t owner = 0;
  std::int64_t before = 0;
  if (auto known = s_->db.prepare("SELECT uid, bytes FROM jobs WHERE id=?"); known.bind(job.id).step()) {
    owner = static_cast<std::uint32_t>(known.integer(0));
    before = known.integer(1);
  }
  std::string text = Json(job).dump();
  if (text.size() > kMostRow) {
    ElasticJob less = job;
    less.plan.reset();
    less.parallel.first.reset();
    less.unfit.clear();
    less.anchor.clear();
    less.extensions.clear();
    text = Json(less).dump();
  }
  const auto bytes = static_cast<std::int64_t>(text.size());
  s_->db.prepare("INSERT OR REPLACE INTO jobs(id, uid, bytes, ended, exit_code, seen, record) VALUES(?,?,?,0,0,?,?)")
      .bind(job.id, job.uid, bytes, now, text)
      .run();
  s_->add(owner, &Statements::Usage::job_bytes, -before);
  s_->add(job.uid, &Statements::Usage::job_bytes, bytes);
  s_->written += text.size();
  trim();
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

void Store::save_scale(JobId job, const Json& table) {
  s_->db.prepare("INSERT OR REPLACE INTO scale_tables(job, record) VALUES(?,?)").bind(job, table.dump()).run();
}

std::optional<Json> Store::scale(JobId job) {
  auto query = s_->db.prepare("SELECT record FROM scale_tables WHERE job=?");
  if (!query.bind(job).step()) return std::nullopt;
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

}  // namespace espalier
