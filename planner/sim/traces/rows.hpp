// Reads tables in text: rows by line, columns by name. Describes in words why a row is damaged.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "planner/sim/trace.hpp"

namespace espalier::sim {

// The parts between separators. An empty text has one empty part.
std::vector<std::string> split(const std::string& line, char separator);

// Describes the damage of one row. The reader of the rows catches it.
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
  double time(const std::string& column) const;      // seconds, or a date that parse_time() accepts
  double time_or_date(const std::string& column) const;

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> fields_;
};

// Parses "2017-10-09 07:01:55", "2017-10-09T07:01:55", or seconds. Dates have no time zone.
// nullopt: the text is none of these.
std::optional<double> parse_time(const std::string& text);
// The same, and "2017-10-09" for its midnight: what people write. In other programs' tables it is a cut time.
std::optional<double> parse_time_or_date(const std::string& text);

struct Table {
  char separator = ',';
  bool quotes = true;  // fields may be in quotes (RFC 4180), as libcsv reads them
  // Names if the text has no header; empty: the first line is the header.
  std::vector<std::string> columns;
  std::vector<std::string> needs;  // required columns; without them it is another format
  std::string name;                // name of the format, for messages
};

// Reads entry `number` and adds the result to the trace. `read` returns a job, or nullopt to leave
// the entry out, or throws Damage.
void read_entry(Trace& trace, long number, const std::function<std::optional<TraceJob>()>& read);

// Calls `read` for every row that is not empty. `read` returns a job, or nullopt to leave the row
// out, or throws Damage. Throws Error when the header lacks a required column.
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
