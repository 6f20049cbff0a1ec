#include <cstdio>

#include "planner/core/probe/findings.hpp"

namespace espalier {
namespace {

// Six digits, and always a floating-point number to TOML.
std::string real(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%#.6g", value);
  std::string result = text;
  if (result.back() == '.') result += '0';
  return result;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f)
      result += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return result + "\"";
}

}  // namespace

std::string to_toml(const Findings& findings, const std::string& measured, const std::string& nodes) {
  std::string text = "# Written by `espalier calibrate`, measured on " + nodes +
                     ". espalierd reads this file when it starts and when it\n"
                     "# reads its configuration again. A key of espalier.toml wins over the same key here.\n";
  std::string network;
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) network += std::string(key) + " = " + real(*value) + "\n";
  };
  add("tp_gb_s", findings.tp_gb_s);
  add("v0_mb", findings.v0_mb);
  add("v_sat_mb", findings.v_sat_mb);
  add("dp_gb_s", findings.dp_gb_s);
  add("nic_gb_s", findings.nic_gb_s);
  if (findings.nics) network += "nics = " + std::to_string(*findings.nics) + "\n";
  add("crossing", findings.crossing);
  if (!network.empty()) text += "\n[network]\nmeasured = " + quoted(measured) + "\n" + network;
  std::map<std::string, std::string> tables;  // by GPU type
  for (const auto& [type, gpu] : findings.gpus)
    tables[type] +=
        "tflops = " + real(gpu.tflops) + "\nmemory_bandwidth_gb_s = " + real(gpu.memory_bandwidth_gb_s) + "\n";
  for (const auto& [type, rails] : findings.rails) {
    tables[type] += "nic_gb_s = " + real(rails.nic_gb_s) + "\n";
    if (rails.nics > 0) tables[type] += "nics = " + std::to_string(rails.nics) + "\n";
  }
  for (const auto& [type, keys] : tables)
    text += "\n[gpu." + quoted(type) + "]\nmeasured = " + quoted(measured) + "\n" + keys;
  return text;
}

}  // namespace espalier
