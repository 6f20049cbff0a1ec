#include "planner/wire/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <toml.hpp>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/event.h"

namespace espalier::wire {
namespace {

using Value = toml::value;
using Setter = std::function<void(const Value&)>;

[[noreturn]] void fail(const std::string& path, const Value& at, const std::string& key, const std::string& problem) {
  throw Error(path + ":" + std::to_string(at.location().line()) + ": " + key + ": " + problem);
}

template <class Number>
Setter whole(const std::string& path, const std::string& key, Number& out, long low, long high) {
  return [&out, path, key, low, high](const Value& value) {
    if (!value.is_integer()) fail(path, value, key, "must be a whole number");
    const auto number = value.as_integer();
    if (number < low || number > high)
      fail(path, value, key, "must be between " + std::to_string(low) + " and " + std::to_string(high));
    out = static_cast<Number>(number);
  };
}

Setter real(const std::string& path, const std::string& key, double& out, double low, double high) {
  return [&out, path, key, low, high](const Value& value) {
    if (!value.is_floating() && !value.is_integer()) fail(path, value, key, "must be a number");
    const double number = value.is_integer() ? static_cast<double>(value.as_integer()) : value.as_floating();
    if (!(number >= low && number <= high))
      fail(path, value, key, "must be between " + std::to_string(low) + " and " + std::to_string(high));
    out = number;
  };
}

Setter text(const std::string& path, const std::string& key, std::string& out, bool may_be_empty) {
  return [&out, path, key, may_be_empty](const Value& value) {
    if (!value.is_string()) fail(path, value, key, "must be a string");
    if (!may_be_empty && value.as_string().str.empty()) fail(path, value, key, "must not be empty");
    out = value.as_string().str;
  };
}

Setter truth(const std::string& path, const std::string& key, bool& out) {
  return [&out, path, key](const Value& value) {
    if (!value.is_boolean()) fail(path, value, key, "must be true or false");
    out = value.as_boolean();
  };
}

Setter one_of(const std::string& path, const std::string& key, std::string& out,
              const std::vector<std::string>& allowed) {
  return [&out, path, key, allowed](const Value& value) {
    text(path, key, out, false)(value);
    if (std::find(allowed.begin(), allowed.end(), out) != allowed.end()) return;
    std::string list;
    for (std::size_t i = 0; i < allowed.size(); ++i)
      list += (i == 0 ? "" : i + 1 < allowed.size() ? ", " : " or ") + allowed[i];
    fail(path, value, key, "must be " + list);
  };
}

using Table = std::map<std::string, Setter>;

std::map<std::string, Table> known_keys(Config& c, const std::string& path) {
  const auto name = [](const char* table, const char* key) { return std::string(table) + "." + key; };
  std::map<std::string, Table> tables;
  const auto add = [&](const char* table, const char* key, auto make) { tables[table][key] = make(name(table, key)); };
  add("planner", "host", [&](const std::string& k) { return text(path, k, c.planner_host, false); });
  add("planner", "port", [&](const std::string& k) { return whole(path, k, c.planner_port, 1, 65535); });
  add("planner", "run_dir", [&](const std::string& k) { return text(path, k, c.run_dir, false); });
  add("planner", "state_dir", [&](const std::string& k) { return text(path, k, c.state_dir, false); });
  add("planner", "log_level", [&](const std::string& k) {
    return one_of(path, k, c.log_level, {"debug", "info", "warning", "error"});
  });
  add("planner", "poll_seconds", [&](const std::string& k) { return real(path, k, c.poll_seconds, 0.1, 3600); });
  add("planner", "cooldown_seconds", [&](const std::string& k) { return real(path, k, c.cooldown_seconds, 0, 86400); });
  add("planner", "lambda", [&](const std::string& k) { return real(path, k, c.lambda, 0, 1000); });
  add("planner", "hysteresis", [&](const std::string& k) { return real(path, k, c.hysteresis, 0, 1); });
  add("planner", "least_gain", [&](const std::string& k) { return real(path, k, c.least_gain, 1, 10); });
  add("planner", "idle_seconds", [&](const std::string& k) { return real(path, k, c.idle_seconds, 0, 31536000); });
  add("planner", "reclaim", [&](const std::string& k) { return truth(path, k, c.reclaim); });
  add("planner", "policy", [&](const std::string& k) { return one_of(path, k, c.policy, {"espalier", "suika"}); });
  add("planner", "topology_file", [&](const std::string& k) { return text(path, k, c.topology_file, true); });
  add("extensions", "partition", [&](const std::string& k) { return text(path, k, c.partition, false); });
  add("extensions", "max_gpus", [&](const std::string& k) { return whole(path, k, c.max_gpus, 1, 1000000); });
  add("extensions", "max_lease_minutes",
      [&](const std::string& k) { return whole(path, k, c.max_lease_minutes, 1, 525600); });
  add("extensions", "kill_wait_seconds",
      [&](const std::string& k) { return whole(path, k, c.kill_wait_seconds, 0, 65535); });
  add("launch", "network", [&](const std::string& k) { return text(path, k, c.network, true); });
  add("launch", "protocol_seconds", [&](const std::string& k) { return whole(path, k, c.protocol_seconds, 1, 86400); });
  add("launch", "start_seconds", [&](const std::string& k) { return whole(path, k, c.start_seconds, 1, 86400); });
  add("launch", "acquire_seconds", [&](const std::string& k) { return whole(path, k, c.acquire_seconds, 1, 86400); });
  add("launch", "switch_seconds", [&](const std::string& k) { return whole(path, k, c.switch_seconds, 1, 86400); });
  add("launch", "heartbeat_seconds", [&](const std::string& k) { return real(path, k, c.heartbeat_seconds, 0.1, 60); });
  add("launch", "mpirun", [&](const std::string& k) { return text(path, k, c.mpirun, false); });
  add("launch", "work_dir", [&](const std::string& k) { return text(path, k, c.work_dir, true); });
  HardwareOverrides& h = c.hardware;
  add("network", "tp_gb_s", [&](const std::string& k) { return real(path, k, h.tp_gb_s, 0, 100000); });
  add("network", "dp_gb_s", [&](const std::string& k) { return real(path, k, h.dp_gb_s, 0, 100000); });
  add("network", "nic_gb_s", [&](const std::string& k) { return real(path, k, h.nic_gb_s, 0.001, 100000); });
  add("network", "nics", [&](const std::string& k) { return whole(path, k, h.nics, 0, 64); });
  add("network", "crossing", [&](const std::string& k) { return real(path, k, h.crossing, 0.01, 1); });
  add("network", "v0_mb", [&](const std::string& k) { return real(path, k, h.v0_mb, 0.001, 10000); });
  add("network", "v_sat_mb", [&](const std::string& k) { return real(path, k, h.v_sat_mb, 0.001, 1000000); });
  return tables;
}

// `name`: of the table, as the file writes it.
void read_table(const std::string& path, const std::string& name, const Value& content, const Table& known) {
  if (!content.is_table()) fail(path, content, name, "must be a table");
  for (const auto& [key, value] : content.as_table()) {
    const auto setter = known.find(key);
    if (setter == known.end()) fail(path, value, name + "." + key, "unknown key; see espalier.toml(5)");
    setter->second(value);
  }
}

// [gpu.NAME]: a table for each GPU type of the site.
void read_gpus(const std::string& path, const Value& content, Config& c) {
  if (!content.is_table()) fail(path, content, "gpu", "must be a table");
  for (const auto& [type, figures] : content.as_table()) {
    const std::string name = "gpu." + type;
    GpuOverride& gpu = c.hardware.gpus[type];
    read_table(path, name, figures,
               {{"tflops", real(path, name + ".tflops", gpu.tflops, 0.1, 1000000)},
                {"memory_gb", real(path, name + ".memory_gb", gpu.memory_gb, 0.1, 100000)},
                {"memory_bandwidth_gb_s",
                 real(path, name + ".memory_bandwidth_gb_s", gpu.memory_bandwidth_gb_s, 1, 1000000)}});
  }
}

}  // namespace

Config load_config(const std::string& given) {
  Config config;
  std::string path = given;
  if (const char* environment = std::getenv("ESPALIER_CONF"); path.empty() && environment != nullptr)
    path = environment;
  if (path.empty()) {
    if (::access(ESPALIER_CONFIG, F_OK) != 0) return config;
    path = ESPALIER_CONFIG;
  }
  if (::access(path.c_str(), R_OK) != 0) throw Error(path + ": cannot be read; check the path and its mode");
  Value root;
  try {
    root = toml::parse(path);
  } catch (const toml::exception& error) {
    throw Error(path + ":" + std::to_string(error.location().line()) + ": no valid TOML: " + error.what());
  } catch (const std::exception& error) {
    throw Error(path + ": cannot be parsed: " + error.what());
  }
  config.path = path;
  const auto tables = known_keys(config, path);
  for (const auto& [table, content] : root.as_table()) {
    if (table == "gpu") {
      read_gpus(path, content, config);
      continue;
    }
    const auto known = tables.find(table);
    if (known == tables.end()) fail(path, content, table, "unknown table; see espalier.toml(5)");
    read_table(path, table, content, known->second);
  }
  if (config.hardware.v_sat_mb <= config.hardware.v0_mb)
    throw Error(path + ": network.v_sat_mb: must be larger than network.v0_mb");
  return config;
}

}  // namespace espalier::wire
