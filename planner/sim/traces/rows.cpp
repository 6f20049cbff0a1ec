#include "planner/sim/traces/rows.hpp"

#include <csv.h>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::sim {

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == separator) fields.emplace_back();
    else fields.back() += c;
  }
  return fields;
}

namespace {

std::string quoted(const std::string& text) { return "\"" + text.substr(0, 40) + "\""; }

// nullopt: a quote is not closed or is in a wrong place.
std::optional<std::vector<std::string>> split_quoted(const std::string& line, char separator) {
  csv_parser parser;
  if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) return std::nullopt;
  const std::unique_ptr<csv_parser, decltype(&csv_free)> owner(&parser, csv_free);
  csv_set_delim(&parser, static_cast<unsigned char>(separator));
  std::vector<std::string> fields;
  const auto field = [](void* data, std::size_t size, void* out) {
    static_cast<std::vector<std::string>*>(out)->emplace_back(static_cast<const char*>(data), size);
  };
  if (csv_parse(&parser, line.data(), line.size(), field, nullptr, &fields) != line.size() ||
      csv_fini(&parser, field, nullptr, &fields) != 0)
    return std::nullopt;
  return fields;
}

std::optional<std::vector<std::string>> split_row(const std::string& line, const Table& table) {
  if (table.quotes && line.find('"') != std::string::npos) return split_quoted(line, table.separator);
  return split(line, table.separator);
}

std::map<std::string, std::size_t> header_of(const std::vector<std::string>& names, const Table& table) {
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; i < names.size(); ++i) columns.try_emplace(names[i], i);
  for (const std::string& needed : table.needs)
    if (!columns.contains(needed))
      throw Error(table.name + ": the first line has no column \"" + needed + "\"; name its format, or add the column");
  return columns;
}

}  // namespace

const std::string& Row::text(const std::string& column) const {
  const auto at = columns_.find(column);
  if (at == columns_.end()) throw Damage("there is no column " + column);
  return fields_[at->second];
}

double Row::number(const std::string& column) const {
  const std::string& field = text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !(std::abs(value) <= kMaxTraceNumber))
    throw Damage(column + " " + quoted(field) + " is no number");
  return value;
}

double Row::positive(const std::string& column) const {
  const double value = number(column);
  if (value <= 0) throw Damage(column + " " + quoted(text(column)) + " is not above zero");
  return value;
}

int Row::count(const std::string& column) const {
  const double value = number(column);
  if (value < 0 || value > 1 << 20 || value != std::floor(value))
    throw Damage(column + " " + quoted(text(column)) + " is no count");
  return static_cast<int>(value);
}

double Row::time(const std::string& column) const {
  const auto value = parse_time(text(column));
  if (!value) throw Damage(column + " " + quoted(text(column)) + " is no time");
  return *value;
}

double Row::time_or_date(const std::string& column) const {
  const auto value = parse_time_or_date(text(column));
  if (!value) throw Damage(column + " " + quoted(text(column)) + " is no time");
  return *value;
}

std::optional<double> parse_time(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  char between = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%c%2d:%2d:%2d%n", &year, &month, &day, &between, &hour, &minute, &second,
                  &used) == 7 &&
      (between == ' ' || between == 'T')) {
    const std::string rest = text.substr(static_cast<std::size_t>(used));
    const auto date = std::chrono::year(year) / month / day;
    if ((!rest.empty() && rest != "Z") || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
    const auto days = std::chrono::sys_days(date).time_since_epoch().count();
    return static_cast<double>(days) * 86400.0 + hour * 3600 + minute * 60 + second;
  }
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !(std::abs(seconds) <= kMaxTraceNumber))
    return std::nullopt;
  return seconds;
}

std::optional<double> parse_time_or_date(const std::string& text) {
  const bool date = text.size() == 10 && text[4] == '-' && text[7] == '-';
  return parse_time(date ? text + "T00:00:00" : text);
}

void read_entry(Trace& trace, long number, const std::function<std::optional<TraceJob>()>& read) {
  try {
    auto job = read();
    if (!job) {
      ++trace.left_out;
      return;
    }
    job->line = number;
    trace.jobs.push_back(std::move(*job));
  } catch (const Damage& damage) {
    trace.damaged.push_back({number, damage.what()});
  }
}

Trace read_rows(const std::string& text, const Table& table,
                const std::function<std::optional<TraceJob>(const Row&)>& read) {
  Trace trace;
  std::map<std::string, std::size_t> columns;
  if (!table.columns.empty()) columns = header_of(table.columns, table);
  std::size_t width = table.columns.size();
  long number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    auto fields = split_row(line, table);
    if (width == 0) {
      if (!fields) throw Error(table.name + ": the first line cannot be read; it must name the columns");
      columns = header_of(*fields, table);
      width = fields->size();
      continue;
    }
    read_entry(trace, number, [&] {
      if (!fields) throw Damage("its quotes are not closed, or stand inside a field");
      if (fields->size() != width)
        throw Damage(std::to_string(fields->size()) + " columns instead of " + std::to_string(width));
      return read(Row(columns, std::move(*fields)));
    });
  }
  if (width == 0) throw Error(table.name + ": the file is empty; it must name columns and jobs");
  return trace;
}

}  // namespace espalier::sim
