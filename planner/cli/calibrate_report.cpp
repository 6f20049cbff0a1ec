#include "planner/cli/calibrate_report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::cli {
namespace {

template <class Number>
void put(Json& json, const char* key, const std::optional<Number>& value) {
  json[key] = value ? Json(*value) : Json(nullptr);
}

std::string row(const std::string& what, const std::string& figure) { return fmt::format("{:<52} {}\n", what, figure); }

}  // namespace

std::string calibrate_table(const Findings& findings) {
  std::string text;
  for (const auto& [type, gpu] : findings.gpus)
    text += row(fmt::format("{} x {}", gpu.count, type.empty() ? "GPU" : type),
                fmt::format("{:.4g} TFLOPS, memory {:.4g} GB/s", gpu.tflops, gpu.memory_bandwidth_gb_s));
  if (findings.tp_gb_s)
    text += row("all-reduce of activations inside a node",
                fmt::format("{:.4g} GB/s from {:.4g} MB on, nothing gained below {:.3g} MB; the fit is off by {:.1f}%",
                            *findings.tp_gb_s, *findings.v_sat_mb, *findings.v0_mb, 100 * findings.reduce_error));
  if (findings.dp_gb_s)
    text += row("all-reduce of gradients inside a node", fmt::format("{:.4g} GB/s", *findings.dp_gb_s));
  for (const auto& [distance, gb_s] : findings.by_distance)
    text +=
        row(distance == 1 ? "between nodes under one leaf switch"
                          : fmt::format("between nodes, {} switch level{} up", distance - 1, distance == 2 ? "" : "s"),
            fmt::format("{:.4g} GB/s", gb_s));
  if (findings.nic_gb_s)
    text += row("one rail of a node", fmt::format("{:.4g} GB/s", *findings.nic_gb_s) +
                                          (!findings.nics        ? ""
                                           : *findings.nics == 0 ? ", one for each GPU"
                                                                 : fmt::format(", {} of them", *findings.nics)));
  for (const auto& [type, rails] : findings.rails)
    text += row("one rail of a node with " + type, fmt::format("{:.4g} GB/s", rails.nic_gb_s) +
                                                       (rails.nics ? fmt::format(", {} of them", rails.nics) : ""));
  if (findings.pair_reduce_gb_s)
    text += row("all-reduce of gradients between two nodes", fmt::format("{:.4g} GB/s", *findings.pair_reduce_gb_s));
  for (const std::string& slow : findings.slow) text += "slow: " + slow + "\n";
  for (const std::string& note : findings.notes) text += "note: " + note + "\n";
  return text;
}

Json calibrate_json(const Findings& findings, const ProbeReport& report) {
  Json json{{"slow", findings.slow}, {"notes", findings.notes}, {"reduce_error", findings.reduce_error}};
  put(json, "tp_gb_s", findings.tp_gb_s);
  put(json, "v0_mb", findings.v0_mb);
  put(json, "v_sat_mb", findings.v_sat_mb);
  put(json, "dp_gb_s", findings.dp_gb_s);
  put(json, "nic_gb_s", findings.nic_gb_s);
  put(json, "nics", findings.nics);
  put(json, "crossing", findings.crossing);
  put(json, "pair_reduce_gb_s", findings.pair_reduce_gb_s);
  json["gpus"] = Json::object();
  for (const auto& [type, gpu] : findings.gpus)
    json["gpus"][type] = {
        {"tflops", gpu.tflops}, {"memory_bandwidth_gb_s", gpu.memory_bandwidth_gb_s}, {"count", gpu.count}};
  json["rails"] = Json::object();
  for (const auto& [type, rails] : findings.rails)
    json["rails"][type] = {{"nic_gb_s", rails.nic_gb_s}, {"nics", rails.nics > 0 ? Json(rails.nics) : Json(nullptr)}};
  json["by_distance"] = Json::object();
  for (const auto& [distance, gb_s] : findings.by_distance) json["by_distance"][std::to_string(distance)] = gb_s;
  Json& rows = json["measured"] = Json::array();
  for (const auto& one : report.gpus) rows.push_back(Json::parse(to_line(one)).at("calibrate"));
  for (const auto& one : report.reduces) rows.push_back(Json::parse(to_line(one)).at("calibrate"));
  for (const auto& one : report.links) rows.push_back(Json::parse(to_line(one)).at("calibrate"));
  return json;
}

void replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + "." + std::to_string(::getpid());
  const auto fail = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    ::unlink(fresh.c_str());
    throw Error(path + ": cannot be " + what + ": " + reason + "; give another file with --output");
  };
  wire::Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) fail("written");
  if (::fchmod(file.get(), 0644) != 0) fail("made readable");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("written");
    done += static_cast<std::size_t>(count);
  }
  if (::fsync(file.get()) != 0) fail("written");
  if (::rename(fresh.c_str(), path.c_str()) != 0) fail("replaced");
}

}  // namespace espalier::cli
