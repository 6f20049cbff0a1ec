#include "planner/daemon/store.hpp"

#include <utility>

#include "planner/core/json.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {
namespace {

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

Store::Store(const std::string& path)
    : StoreReader(std::make_unique<Database>(Statements::for_owner_alone(path))),
      s_(std::make_unique<Statements>(*db_, path)) {}
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

std::vector<double> Store::pauses(JobId job, int limit) {
  auto query = s_->db.prepare(
      "SELECT pause FROM (SELECT pause, kind, outcome, phases FROM decisions WHERE job=? ORDER BY id DESC LIMIT ?)"
      " WHERE outcome='committed' AND kind<>? AND pause>0 AND phases NOT LIKE '%\"in_place\"%'");
  query.bind(job, limit, to_string(DecisionKind::recover));
  std::vector<double> found;
  while (query.step()) found.push_back(query.real(0));
  return found;
}

std::vector<std::int64_t> Store::close_open(const std::string& outcome) {
  std::vector<std::int64_t> ids;
  {
    auto query = s_->db.prepare("SELECT id FROM decisions WHERE outcome='' ORDER BY id");
    while (query.step()) ids.push_back(query.integer(0));
  }
  Transaction transaction(s_->db);
  for (const std::int64_t id : ids) {
    auto record = decision(id);
    if (!record) continue;
    record->decision.outcome = outcome;
    update(*record);
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

void Store::save(const ElasticJob& job, double now) {
  std::uint32_t owner = 0;
  std::int64_t before = 0;
  if (auto known = s_->db.prepare("SELECT uid, bytes FROM jobs WHERE id=?"); known.bind(job.id).step()) {
    owner = static_cast<std::uint32_t>(known.integer(0));
    before = known.integer(1);
  }
  Json record(job);
  // A planner that is older would not read the record with these; the launcher tells them again.
  record.erase("gpu_islands");
  record.erase("jobs_reach");
  record["parallel"].erase("lists");
  std::string text = record.dump();
  if (text.size() > kMostRow) {
    ElasticJob less = job;
    less.plan.reset();
    less.parallel.first.reset();
    less.parallel.lists.clear();
    less.unfit.clear();
    less.anchor.clear();
    less.extensions.clear();
    less.gpu_islands.clear();
    less.jobs_reach = false;
    text = Json(less).dump();
  }
  const auto bytes = static_cast<std::int64_t>(text.size());
  s_->db.prepare("INSERT OR REPLACE INTO jobs(id, uid, bytes, ended, exit_code, seen, record) VALUES(?,?,?,0,0,?,?)")
      .bind(job.id, job.uid, bytes, now, text)
      .run();
  s_->add(owner, &Statements::Usage::job_bytes, -before);
  // Slurm has given the number again: what is there was measured of another user's job.
  if (owner != job.uid && before > 0) {
    s_->forget_measured(job.id);
    s_->forget_usage(job.id);
  }
  s_->add(job.uid, &Statements::Usage::job_bytes, bytes);
  s_->written += text.size();
  trim();
}

void Store::end(JobId job, int exit_code, double now) {
  s_->db.prepare("UPDATE jobs SET ended=1, exit_code=?, seen=? WHERE id=?").bind(exit_code, now, job).run();
  hold(job, false);
}

void Store::save_coefficients(JobId job, const Json& coefficients) {
  s_->save_measured("coefficients", &Statements::Measured::coefficients, job, coefficients.dump());
  trim();
}

void Store::save_scale(JobId job, const Json& table) {
  s_->save_measured("scale_tables", &Statements::Measured::scale, job, table.dump());
  trim();
}

void Store::hold(JobId job, bool held) {
  s_->db.prepare(held ? "INSERT OR IGNORE INTO holds(job) VALUES(?)" : "DELETE FROM holds WHERE job=?").bind(job).run();
}

bool Store::held(JobId job) {
  auto query = s_->db.prepare("SELECT 1 FROM holds WHERE job=?");
  return query.bind(job).step();
}

std::vector<JobId> Store::open_jobs() { return s_->ids("SELECT id FROM jobs WHERE ended=0 ORDER BY id"); }
std::vector<JobId> Store::holds() { return s_->ids("SELECT job FROM holds ORDER BY job"); }

void Store::save_topology(const std::string& node, const std::string& xml, double now) {
  s_->db.prepare("INSERT OR REPLACE INTO topology(node, time, xml) VALUES(?,?,?)").bind(node, now, xml).run();
}

std::map<std::string, std::string> Store::topology_documents() {
  auto query = s_->db.prepare("SELECT node, xml FROM topology");
  std::map<std::string, std::string> found;
  while (query.step()) found[query.text(0)] = query.text(1);
  return found;
}

}  // namespace espalier
