#include "planner/daemon/sqlite.hpp"

#include <sqlite3.h>

#include <utility>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

[[noreturn]] void fail(sqlite3* database) {
  const char* file = sqlite3_db_filename(database, "main");
  const int code = sqlite3_errcode(database) & 0xff;
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  throw Error(std::string(file == nullptr ? "decision store" : file) + ": " + sqlite3_errmsg(database) +
              (damaged
                   ? "; it is damaged: stop espalierd, move the file away, and start espalierd, which makes a new one "
                     "without the decisions and profiles of before"
                   : "; check that the file system is writable and not full"));
}

}  // namespace

Statement::Statement(Database& database, const std::string& sql) : database_(database), sql_(sql) {
  if (const auto idle = database_.idle_.find(sql); idle != database_.idle_.end()) {
    statement_ = idle->second;
    database_.idle_.erase(idle);
  } else if (sqlite3_prepare_v2(database_.handle_, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) {
    fail(database_.handle_);
  }
}
Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), sql_(std::move(other.sql_)), statement_(std::exchange(other.statement_, nullptr)) {}
Statement::~Statement() {
  if (statement_ == nullptr) return;
  reset();
  database_.idle_.emplace(std::move(sql_), statement_);
}

bool Statement::step() {
  switch (sqlite3_step(statement_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      sqlite3_reset(statement_);
      return false;
    default:
      sqlite3_reset(statement_);
      fail(database_.handle_);
  }
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }
std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

void Statement::put(int at, std::int64_t value) {
  if (sqlite3_bind_int64(statement_, at, value) != SQLITE_OK) fail(database_.handle_);
}
void Statement::put(int at, double value) {
  if (sqlite3_bind_double(statement_, at, value) != SQLITE_OK) fail(database_.handle_);
}
void Statement::put(int at, const std::string& value) {
  const auto size = static_cast<sqlite3_uint64>(value.size());
  if (sqlite3_bind_text64(statement_, at, value.data(), size, SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK)
    fail(database_.handle_);
}

Database::Database(const std::string& path, Access access) {
  const int how = access == Access::read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (sqlite3_open_v2(path.c_str(), &handle_, how, nullptr) != SQLITE_OK) {
    const std::string why = handle_ == nullptr ? "no memory" : sqlite3_errmsg(handle_);
    sqlite3_close(handle_);
    throw Error(path + ": cannot open: " + why + "; check that its directory exists and is writable");
  }
  try {
    sqlite3_busy_timeout(handle_, 2000);
    if (access == Access::read_only) return;
    execute("PRAGMA journal_mode=WAL");
    execute("PRAGMA synchronous=NORMAL");
    execute("PRAGMA journal_size_limit=16777216");  // what one large write left of the log is given back
  } catch (...) {
    sqlite3_close(handle_);
    throw;
  }
}
Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(handle_);
}
std::int64_t Database::last_id() const { return sqlite3_last_insert_rowid(handle_); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {
    // SQLite has already rolled back by itself.
  }
}
void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace espalier
