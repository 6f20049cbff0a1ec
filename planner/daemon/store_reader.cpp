#include "planner/daemon/store_reader.hpp"

#include "planner/core/json.hpp"

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

constexpr const char* kAllocation = "job, anchor, uid, gpus, started, ended, exact, base";

StoreReader::Allocation read_allocation(const Statement& row) {
  return {static_cast<JobId>(row.integer(0)),
          static_cast<JobId>(row.integer(1)),
          static_cast<std::uint32_t>(row.integer(2)),
          static_cast<int>(row.integer(3)),
          row.real(4),
          row.real(5),
          row.integer(6) != 0,
          row.integer(7) != 0};
}

constexpr const char* kKnowledge = "SELECT id, uid, job, gpus, driver, record, updated FROM knowledge ";

Knowledge read_knowledge(const Statement& row) {
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

std::vector<Knowledge> all_knowledge(Statement query) {
  std::vector<Knowledge> rows;
  while (query.step()) rows.push_back(read_knowledge(query));
  return rows;
}

}  // namespace

StoreReader::StoreReader(const std::string& path)
    : StoreReader(std::make_unique<Database>(path, Database::Access::read_only)) {}
StoreReader::StoreReader(std::unique_ptr<Database> database) : db_(std::move(database)) {}
StoreReader::~StoreReader() = default;

std::optional<DecisionRecord> StoreReader::decision(std::int64_t id) {
  auto query = db_->prepare(std::string("SELECT ") + kColumns + " FROM decisions WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return read_decision(query, true);
}

DecisionPage StoreReader::decisions(const DecisionQuery& asked) {
  std::string sql =
      std::string("SELECT ") + (asked.candidates ? kColumns : kWithoutCandidates) + ", bytes FROM decisions WHERE id<?";
  if (asked.job) sql += " AND job=?2";
  if (asked.uid) sql += " AND uid=?3";
  // SQLite wants each parameter to be named, also those that this question does not use.
  auto query = db_->prepare(sql + " AND (1 OR ?2=?3) ORDER BY id DESC LIMIT ?4");
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

std::vector<DecisionRecord> StoreReader::decisions(std::optional<JobId> job, int limit) {
  DecisionQuery query;
  query.job = job;
  query.limit = limit;
  return decisions(query).records;
}

std::vector<wire::Transition> StoreReader::transitions(JobId job, int limit, std::optional<std::uint32_t> uid) {
  auto query = db_->prepare(std::string("SELECT time, source, event, target, generation, decision FROM transitions ") +
                            (uid ? "WHERE job=? AND uid=?" : "WHERE job=?") + " ORDER BY id DESC LIMIT ?");
  std::vector<wire::Transition> found;
  if (uid) query.bind(job, *uid, limit);
  else query.bind(job, limit);
  while (query.step())
    found.push_back({job, query.real(0), query.text(1), query.text(2), query.text(3),
                     static_cast<int>(query.integer(4)), query.integer(5)});
  return found;
}

std::optional<StoredJob> StoreReader::job(JobId id) {
  auto query = db_->prepare("SELECT record, ended, exit_code, seen FROM jobs WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return StoredJob{Json::parse(query.text(0)).get<ElasticJob>(), query.integer(1) != 0,
                   static_cast<int>(query.integer(2)), query.real(3)};
}

std::optional<std::uint32_t> StoreReader::owner(JobId id) {
  auto query = db_->prepare("SELECT uid FROM jobs WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return static_cast<std::uint32_t>(query.integer(0));
}

std::optional<Json> StoreReader::coefficients(JobId job) {
  auto query = db_->prepare("SELECT record FROM coefficients WHERE job=?");
  if (!query.bind(job).step()) return std::nullopt;
  // In place: a Json converts itself to nearly everything, an optional too, and GCC 16 warns of the choice.
  return std::optional<Json>(std::in_place, Json::parse(query.text(0)));
}

std::optional<Json> StoreReader::scale(JobId job) {
  auto query = db_->prepare("SELECT record FROM scale_tables WHERE job=?");
  if (!query.bind(job).step()) return std::nullopt;
  return std::optional<Json>(std::in_place, Json::parse(query.text(0)));
}

std::map<std::string, double> StoreReader::topologies() {
  auto query = db_->prepare("SELECT node, time FROM topology");
  std::map<std::string, double> found;
  while (query.step()) found[query.text(0)] = query.real(1);
  return found;
}

std::vector<StoreReader::Allocation> StoreReader::open_allocations() {
  std::vector<Allocation> found;
  auto query = db_->prepare(std::string("SELECT ") + kAllocation + " FROM allocations WHERE ended=0 ORDER BY job");
  while (query.step()) found.push_back(read_allocation(query));
  return found;
}

std::vector<StoreReader::Allocation> StoreReader::allocations(JobId anchor) {
  std::vector<Allocation> found;
  auto query =
      db_->prepare(std::string("SELECT ") + kAllocation + " FROM allocations WHERE anchor=? ORDER BY started, job");
  query.bind(anchor);
  while (query.step()) found.push_back(read_allocation(query));
  return found;
}

std::optional<TrainingUsage> StoreReader::training(JobId job) {
  auto query = db_->prepare("SELECT trained, paused, until, gpus FROM trainings WHERE job=?");
  if (!query.bind(job).step()) return std::nullopt;
  TrainingUsage usage;
  usage.trained = query.real(0);
  usage.paused = query.real(1);
  usage.until = query.real(2);
  usage.gpus = static_cast<int>(query.integer(3));
  return usage;
}

std::vector<JobId> StoreReader::jobs_of(std::uint32_t uid, JobId from, int limit) {
  std::vector<JobId> found;
  auto query = db_->prepare("SELECT id FROM jobs WHERE uid=? AND id>=? ORDER BY id LIMIT ?");
  query.bind(uid, from, limit);
  while (query.step()) found.push_back(static_cast<JobId>(query.integer(0)));
  return found;
}

std::optional<Knowledge> StoreReader::knowledge(std::int64_t id) {
  auto query = db_->prepare(std::string(kKnowledge) + "WHERE id=?");
  if (!query.bind(id).step()) return std::nullopt;
  return read_knowledge(query);
}

std::vector<Knowledge> StoreReader::newest_knowledge(int limit, std::int64_t first) {
  auto query = db_->prepare(std::string(kKnowledge) + "ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?");
  query.bind(limit, first);
  return all_knowledge(std::move(query));
}

std::vector<Knowledge> StoreReader::newest_knowledge_of(uid_t user, int limit) {
  auto query = db_->prepare(std::string(kKnowledge) + "WHERE uid=? ORDER BY updated DESC, id DESC LIMIT ?");
  query.bind(std::int64_t{user}, limit);
  return all_knowledge(std::move(query));
}

std::vector<std::int64_t> StoreReader::knowledge_ids(std::optional<uid_t> user, int limit) {
  std::vector<std::int64_t> found;
  auto query = db_->prepare(std::string("SELECT id FROM knowledge ") + (user ? "WHERE uid=? " : "") +
                            "ORDER BY updated DESC, id DESC LIMIT ?");
  if (user) query.bind(std::int64_t{*user}, limit);
  else query.bind(limit);
  while (query.step()) found.push_back(query.integer(0));
  return found;
}

std::vector<Knowledge> StoreReader::knowledge_of(const std::string& job, std::optional<uid_t> user) {
  auto query = db_->prepare(std::string(kKnowledge) + (user ? "WHERE job=? AND uid=?" : "WHERE job=?") +
                            " ORDER BY updated DESC, id DESC");
  if (user) query.bind(job, std::int64_t{*user});
  else query.bind(job);
  return all_knowledge(std::move(query));
}

}  // namespace espalier
