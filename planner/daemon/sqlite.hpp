// SQLite behind RAII. Every failure is an Error that names the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace espalier {

class Database;

// A prepared statement. It resets itself after the last row and on the next bind. It belongs to one
// Database and one thread. Its destructor returns it to the Database, which reuses it for the same
// text.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  // Binds parameters 1, 2, ... in order. Clears earlier values first.
  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    int at = 0;
    (put(++at, values), ...);
    return *this;
  }
  bool step();  // true: a row was read
  void run();   // for statements without rows
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;

 private:
  void reset();
  void put(int at, std::int64_t value);
  void put(int at, std::uint32_t value) { put(at, static_cast<std::int64_t>(value)); }
  void put(int at, int value) { put(at, static_cast<std::int64_t>(value)); }
  void put(int at, bool value) { put(at, static_cast<std::int64_t>(value)); }
  void put(int at, double value);
  void put(int at, const std::string& value);

  Database& database_;
  std::string sql_;
  sqlite3_stmt* statement_ = nullptr;
};

class Database {
 public:
  enum class Access { read_and_write, read_only };
  // Opens the file, in WAL mode. Creates it unless it is to be read only. Throws Error.
  explicit Database(const std::string& path, Access access = Access::read_and_write);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  void execute(const std::string& sql);
  Statement prepare(const std::string& sql) { return Statement(*this, sql); }
  std::int64_t last_id() const;

 private:
  friend class Statement;
  sqlite3* handle_ = nullptr;
  // Prepared statements by text. Parsing a statement costs more than running most of them.
  std::multimap<std::string, sqlite3_stmt*> idle_;
};

// Rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace espalier
