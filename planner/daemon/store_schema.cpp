// The tables of the decision store, and how older ones become them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/daemon/store_statements.hpp"

namespace espalier {
namespace {

// Short columns come first: SQLite then reads them without the long texts behind them.
constexpr const char* kTables = R"(
CREATE TABLE decisions(id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER, time REAL, job INTEGER, kind TEXT,
                       pause REAL, bytes INTEGER, generation INTEGER, step INTEGER, outcome TEXT, moments TEXT,
                       phases TEXT, record TEXT, candidates TEXT);
CREATE TABLE transitions(id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER, time REAL, job INTEGER, source TEXT,
                         event TEXT, target TEXT, generation INTEGER, decision INTEGER);
CREATE TABLE jobs(id INTEGER PRIMARY KEY, uid INTEGER, bytes INTEGER, ended INTEGER, exit_code INTEGER, seen REAL,
                  record TEXT);
CREATE TABLE coefficients(job INTEGER PRIMARY KEY, record TEXT);
CREATE TABLE holds(job INTEGER PRIMARY KEY);
CREATE TABLE topology(node TEXT PRIMARY KEY, time REAL, xml TEXT);
CREATE INDEX decisions_job ON decisions(job);
CREATE INDEX transitions_job ON transitions(job);
)";

// Since schema 4. `job` is what jobs must have in common, `record` is what was learnt.
constexpr const char* kKnowledge = R"(
CREATE TABLE knowledge(id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER, job TEXT, gpus TEXT, driver TEXT,
                       record TEXT, updated REAL, UNIQUE(uid, job, gpus, driver));
CREATE INDEX knowledge_job ON knowledge(job);
)";

// Since schema 6.
constexpr const char* kSubmissions = R"(
CREATE TABLE IF NOT EXISTS submissions(id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, gpus INTEGER);
CREATE INDEX IF NOT EXISTS submissions_time ON submissions(time);
)";

// Since schema 7.
constexpr const char* kScaleTables = "CREATE TABLE IF NOT EXISTS scale_tables(job INTEGER PRIMARY KEY, record TEXT)";
constexpr const char* kUsage = R"(
CREATE TABLE IF NOT EXISTS allocations(job INTEGER, anchor INTEGER, uid INTEGER, gpus INTEGER, started REAL, ended REAL,
                                       exact INTEGER, base INTEGER, PRIMARY KEY(job, started));
CREATE INDEX IF NOT EXISTS allocations_anchor ON allocations(anchor);
CREATE INDEX IF NOT EXISTS allocations_open ON allocations(job) WHERE ended=0;
CREATE TABLE IF NOT EXISTS trainings(job INTEGER PRIMARY KEY, trained REAL, paused REAL, until REAL, gpus INTEGER);
CREATE INDEX IF NOT EXISTS jobs_uid ON jobs(uid, id);
)";

// Since schema 5: whose a row is and what it takes. Older rows may be larger than they may be now.
constexpr std::array<std::pair<const char*, const char*>, 8> kOwnerColumns{{{"decisions", "uid INTEGER"},
                                                                            {"decisions", "kind TEXT"},
                                                                            {"decisions", "pause REAL"},
                                                                            {"decisions", "bytes INTEGER"},
                                                                            {"decisions", "candidates TEXT"},
                                                                            {"transitions", "uid INTEGER"},
                                                                            {"jobs", "uid INTEGER"},
                                                                            {"jobs", "bytes INTEGER"}}};
constexpr const char* kOwners = R"(
DELETE FROM decisions WHERE length(record)>1048576;
UPDATE jobs SET uid=coalesce(json_extract(record, '$.uid'), 0), bytes=length(record);
UPDATE decisions SET uid=coalesce((SELECT jobs.uid FROM jobs WHERE jobs.id=decisions.job), 0), bytes=length(record),
                     kind=json_extract(record, '$.kind'), pause=json_extract(record, '$.pause_ms');
UPDATE transitions SET uid=coalesce((SELECT jobs.uid FROM jobs WHERE jobs.id=transitions.job), 0);
)";
constexpr const char* kOwnerIndexes = R"(
CREATE INDEX IF NOT EXISTS decisions_uid ON decisions(uid, bytes);
CREATE INDEX IF NOT EXISTS decisions_oldest ON decisions(uid, id);
CREATE INDEX IF NOT EXISTS transitions_oldest ON transitions(uid, id);
CREATE INDEX IF NOT EXISTS jobs_oldest ON jobs(uid, ended, seen, bytes);
)";

void own_rows(Database& db) {
  for (const auto& [table, column] : kOwnerColumns) {
    const std::string name(column, std::string(column).find(' '));
    auto known = db.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name=?");
    const bool there = known.bind(std::string(table), name).step();
    known.run();
    if (!there) db.execute(std::string("ALTER TABLE ") + table + " ADD COLUMN " + column);
  }
  db.execute(kOwners);
}

}  // namespace

void Store::Statements::migrate(const std::string& path) {
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
  if (found < 4) db.execute(kKnowledge);
  if (found > 0 && found < 5) own_rows(db);
  if (found < 6) db.execute(kSubmissions);
  if (found < 7) db.execute(kScaleTables);
  if (found < 7) db.execute(kUsage);
  if (found < 8) db.execute("DROP TABLE IF EXISTS extensions");  // written, and read by nobody
  db.execute(kOwnerIndexes);
  db.execute("PRAGMA user_version=" + std::to_string(kSchema));
  transaction.commit();
  // The package's preinst reads the schema from the file itself, not from the log beside it.
  db.execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

// A file of this mode before SQLite writes to it; SQLite gives its other files the same mode. Those
// of an earlier run may have another.
const std::string& Store::Statements::for_owner_alone(const std::string& path) {
  if (path == ":memory:") return path;  // SQLite's name for a database without a file
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  for (const char* part : {"", "-wal", "-shm"}) ::chmod((path + part).c_str(), 0600);
  return path;
}

}  // namespace espalier
