// Reading of tables in text: rows by line, columns by name, and what is wrong with a row in words.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "planner/sim/trace.hpp"

namespace espalier::sim {

// What stands between separators; of an empty text one empty part.
std::vector<std::string> split(const std::string& line, char separator);

// What is wrong with one row; caught where rows are read.
class Damage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A row's fields under the names of the header.
class Row {
 public:
  Row(const std::map<std::string, std::size_t>& columns, std::vector<std::string> fields)
      : columns_(columns), fields_(std::move(fields)) {}
  bool has(const std::string& column) const { return columns_.contains(column); }
  const std::string& text(const std::string& column) const;
  double number(const std::string& column) const;    // finite; throws Damage
  double positive(const std::string& column) const;  // above zero
  int count(const std::string& column) const;        // a whole number from 0 to 2^20; "8.0" is one
  double time(const std::string& column) const;      // seconds, or a date as parse_time() knows it

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> fields_;
};

// "2017-10-09 07:01:55", "2017-10-09T07:01:55", or seconds; dates are taken as they stand, without a time zone.
// nullopt: neither.
std::optional<double> parse_time(const std::string& text);

struct Table {
  char separator = ',';
  bool quotes = true;                // fields may stand in quotes (RFC 4180), as libcsv reads them
  std::vector<std::string> columns;  // where the text has no header; empty: the first line is one
  std::vector<std::string> needs;    // columns without which it is another format
  std::string name;                  // of the format, for messages
};

// Adds to the trace what `read` makes of its entry `number`: a job, nothing where it leaves the entry out, or Damage.
void read_entry(Trace& trace, long number, const std::function<std::optional<TraceJob>()>& read);

// Calls `read` for every row that is not empty. It returns a job, nothing for a row to leave out, or throws Damage.
// Throws Error when the header lacks what the table needs.
Trace read_rows(const std::string& text, const Table& table,
                const std::function<std::optional<TraceJob>(const Row&)>& read);

// One function per format, in a file of its name.
Trace parse_plain_csv(const std::string& text);
Trace parse_philly(const std::string& text);
Trace parse_philly_json(const std::string& text);
Trace parse_helios(const std::string& text);
Trace parse_pai(const std::string& text);
Trace parse_arena(const std::string& text);
Trace parse_sacct(const std::string& text);

}  // namespace espalier::sim
