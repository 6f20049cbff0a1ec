#include "planner/wire/hardware_keys.hpp"

#include "planner/core/error.hpp"

namespace espalier::wire {
namespace {

TomlKeys network_keys(const std::string& path, HardwareOverrides& h) {
  TomlKeys keys;
  const auto real = [&](const char* key, double& out, double low, double high) {
    keys[key] = toml_real(path, std::string("network.") + key, out, low, high);
  };
  real("tp_gb_s", h.tp_gb_s, 0, 100000);
  real("dp_gb_s", h.dp_gb_s, 0, 100000);
  real("nic_gb_s", h.nic_gb_s, 0.001, 100000);
  real("crossing", h.crossing, 0.01, 1);
  real("v0_mb", h.v0_mb, 0.001, 10000);
  real("v_sat_mb", h.v_sat_mb, 0.001, 1000000);
  keys["measured"] = toml_text(path, "network.measured", h.measured, true);
  keys["nics"] = toml_whole(path, "network.nics", h.nics, 0, 64);
  return keys;
}

// [gpu.NAME]: a table for each GPU type of the site.
void read_gpus(const std::string& path, const toml::value& content, HardwareOverrides& hardware,
               const std::string& manual) {
  if (!content.is_table()) fail_toml(path, content, "gpu", "must be a table");
  for (const auto& [type, figures] : content.as_table()) {
    const std::string name = "gpu." + type;
    GpuOverride& gpu = hardware.gpus[type];
    read_toml_table(path, name, figures,
                    {{"tflops", toml_real(path, name + ".tflops", gpu.tflops, 0.001, 1000000)},
                     {"memory_gb", toml_real(path, name + ".memory_gb", gpu.memory_gb, 0.1, 100000)},
                     {"memory_bandwidth_gb_s",
                      toml_real(path, name + ".memory_bandwidth_gb_s", gpu.memory_bandwidth_gb_s, 0.1, 1000000)},
                     {"nic_gb_s", toml_real(path, name + ".nic_gb_s", gpu.nic_gb_s, 0.001, 100000)},
                     {"nics", toml_whole(path, name + ".nics", gpu.nics, 1, 64)},
                     {"measured", toml_text(path, name + ".measured", gpu.measured, true)}},
                    manual);
  }
}

}  // namespace

bool read_hardware_section(const std::string& path, const std::string& section, const toml::value& content,
                           HardwareOverrides& out, const std::string& manual) {
  if (section == "gpu") read_gpus(path, content, out, manual);
  else if (section == "network") read_toml_table(path, section, content, network_keys(path, out), manual);
  else return false;
  return true;
}

std::set<std::string> hardware_keys(const toml::value& root) {
  std::set<std::string> names;
  const auto add = [&](const std::string& table, const toml::value& content) {
    for (const auto& [key, value] : content.as_table())
      if (key != "measured") names.insert(table + "." + key);
  };
  for (const auto& [table, content] : root.as_table()) {
    if (table == "network") add(table, content);
    if (table == "gpu")
      for (const auto& [type, figures] : content.as_table()) add("gpu." + type, figures);
  }
  return names;
}

void check_hardware(const std::string& path, const HardwareOverrides& hardware) {
  if (hardware.v_sat_mb <= hardware.v0_mb) throw Error(path + ": network.v_sat_mb: must be larger than network.v0_mb");
}

}  // namespace espalier::wire
