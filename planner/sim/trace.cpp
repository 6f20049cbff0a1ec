#include "planner/sim/trace.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {
namespace {

struct Format {
  const char* name;
  TraceFormat format;
  Trace (*parse)(const std::string&);
};

constexpr std::array kFormats{
    Format{"csv", TraceFormat::csv, parse_plain_csv},
    Format{"philly", TraceFormat::philly, parse_philly},
    Format{"philly-json", TraceFormat::philly_json, parse_philly_json},
    Format{"helios", TraceFormat::helios, parse_helios},
    Format{"pai", TraceFormat::pai, parse_pai},
    Format{"arena", TraceFormat::arena, parse_arena},
    Format{"sacct", TraceFormat::sacct, parse_sacct},
};

}  // namespace

TraceFormat trace_format(const std::string& name) {
  std::string known;
  for (const Format& one : kFormats) {
    if (name == one.name) return one.format;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw Error("\"" + name + "\": no such format of traces; use one of " + known);
}

TraceFormat detect_trace_format(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') return TraceFormat::philly_json;
  const std::string line = text.substr(0, text.find('\n'));
  const auto has = [&](const char* word) { return line.find(word) != std::string::npos; };
  if (has("|")) return TraceFormat::sacct;
  if (has("num_iteration")) return TraceFormat::arena;
  if (has("gpu_num")) return TraceFormat::helios;
  if (has("timestamp") && has("num_gpus")) return TraceFormat::philly;
  if (has("submit") && has("seconds")) return TraceFormat::csv;
  if (std::count(line.begin(), line.end(), ',') == 9) return TraceFormat::pai;
  throw Error("its first line is that of no known format of traces; name it by --format");
}

Trace parse_trace(const std::string& text, TraceFormat format) {
  const auto found =
      std::find_if(kFormats.begin(), kFormats.end(), [format](const Format& one) { return one.format == format; });
  Trace trace = found->parse(text);
  std::sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return std::tuple(a.submit, a.line) < std::tuple(b.submit, b.line);
  });
  return trace;
}

double busiest_window(const Trace& trace, double length) {
  double from = trace.jobs.empty() ? 0 : trace.jobs.front().submit;
  std::size_t most = 0, end = 0;
  for (std::size_t begin = 0; begin < trace.jobs.size(); ++begin) {
    while (end < trace.jobs.size() && trace.jobs[end].submit < trace.jobs[begin].submit + length) ++end;
    if (end - begin <= most) continue;
    most = end - begin;
    from = trace.jobs[begin].submit;
  }
  return from;
}

}  // namespace espalier::sim
