#include "planner/core/probe/report.hpp"

#include <sstream>

#include "planner/core/fields.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier {
namespace {

constexpr const char* kMark = "{\"calibrate\":";

std::string line(const char* kind, nlohmann::json fields) {
  return nlohmann::json{{"calibrate", {{kind, std::move(fields)}}}}.dump();
}

double positive(const Fields& fields, const char* name) {
  double value = 0;
  fields.get(name, value);
  if (!(value > 0) || !std::isfinite(value)) throw Error(std::string("calibrate.") + name + ": must be positive");
  return value;
}

void take(const std::string& kind, const nlohmann::json& json, ProbeReport& report) {
  if (kind == "gpu") {
    const Fields fields(json, "calibrate.gpu", {"node", "gpu", "tflops", "memory_gb_s"});
    GpuSpeed& speed = report.gpus.emplace_back();
    fields.get("node", speed.node);
    fields.get("gpu", speed.gpu);
    speed.tflops = positive(fields, "tflops");
    speed.memory_gb_s = positive(fields, "memory_gb_s");
  } else if (kind == "reduce") {
    const Fields fields(json, "calibrate.reduce", {"node", "other", "activations", "members", "bytes", "gb_s"});
    ReduceSpeed& speed = report.reduces.emplace_back();
    fields.get("node", speed.node);
    fields.get("other", speed.other);
    fields.get("activations", speed.activations);
    fields.get("members", speed.members);
    speed.bytes = positive(fields, "bytes");
    speed.gb_s = positive(fields, "gb_s");
  } else if (kind == "link") {
    const Fields fields(json, "calibrate.link", {"from", "to", "streams", "bytes", "gb_s"});
    LinkSpeed& speed = report.links.emplace_back();
    fields.get("from", speed.from);
    fields.get("to", speed.to);
    fields.get("streams", speed.streams);
    speed.bytes = positive(fields, "bytes");
    speed.gb_s = positive(fields, "gb_s");
  } else if (kind == "end") {
    Fields(json, "calibrate.end", {"complete"}).get("complete", report.complete);
    report.ended = true;
  } else {
    throw Error("calibrate." + kind + ": unknown; are espalier and espalier-train of the same version?");
  }
}

}  // namespace

std::string to_line(const GpuSpeed& s) {
  return line("gpu", {{"node", s.node}, {"gpu", s.gpu}, {"tflops", s.tflops}, {"memory_gb_s", s.memory_gb_s}});
}
std::string to_line(const ReduceSpeed& s) {
  return line("reduce", {{"node", s.node},
                         {"other", s.other},
                         {"activations", s.activations},
                         {"members", s.members},
                         {"bytes", s.bytes},
                         {"gb_s", s.gb_s}});
}
std::string to_line(const LinkSpeed& s) {
  return line("link", {{"from", s.from}, {"to", s.to}, {"streams", s.streams}, {"bytes", s.bytes}, {"gb_s", s.gb_s}});
}
std::string last_line(bool complete) { return line("end", {{"complete", complete}}); }

ProbeReport probe_report(const std::string& output) {
  ProbeReport report;
  std::istringstream lines(output);
  for (std::string text; std::getline(lines, text);) {
    if (!text.starts_with(kMark)) continue;
    const auto json = try_json(text);
    if (json.is_discarded() || !json.is_object() || !json["calibrate"].is_object() || json["calibrate"].size() != 1)
      throw Error("the ranks' output has a line that cannot be read: " + text.substr(0, 200));
    const auto item = json["calibrate"].begin();
    take(item.key(), item.value(), report);
  }
  return report;
}

}  // namespace espalier
