#include "planner/wire/config.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>

#include "planner/wire/event.h"
#include "planner/wire/hardware_keys.hpp"

namespace espalier::wire {
namespace {

constexpr const char* kManual = "espalier.toml(5)";

std::map<std::string, TomlKeys> known_keys(Config& c, const std::string& path) {
  const auto name = [](const char* table, const char* key) { return std::string(table) + "." + key; };
  std::map<std::string, TomlKeys> tables;
  const auto add = [&](const char* table, const char* key, auto make) { tables[table][key] = make(name(table, key)); };
  add("planner", "host", [&](const std::string& k) { return toml_text(path, k, c.planner_host, false); });
  add("planner", "port", [&](const std::string& k) { return toml_whole(path, k, c.planner_port, 1, 65535); });
  add("planner", "run_dir", [&](const std::string& k) { return toml_text(path, k, c.run_dir, false); });
  add("planner", "state_dir", [&](const std::string& k) { return toml_text(path, k, c.state_dir, false); });
  add("planner", "log_level", [&](const std::string& k) {
    return toml_one_of(path, k, c.log_level, {"debug", "info", "warning", "error"});
  });
  add("planner", "poll_seconds", [&](const std::string& k) { return toml_real(path, k, c.poll_seconds, 0.1, 3600); });
  add("planner", "cooldown_seconds",
      [&](const std::string& k) { return toml_real(path, k, c.cooldown_seconds, 0, 86400); });
  add("planner", "lambda", [&](const std::string& k) { return toml_real(path, k, c.lambda, 0, 1000); });
  add("planner", "hysteresis", [&](const std::string& k) { return toml_real(path, k, c.hysteresis, 0, 1); });
  add("planner", "least_gain", [&](const std::string& k) { return toml_real(path, k, c.least_gain, 1, 10); });
  add("planner", "idle_seconds", [&](const std::string& k) { return toml_real(path, k, c.idle_seconds, 0, 31536000); });
  add("planner", "reclaim", [&](const std::string& k) { return toml_truth(path, k, c.reclaim); });
  add("planner", "policy", [&](const std::string& k) { return toml_one_of(path, k, c.policy, {"espalier", "suika"}); });
  add("planner", "topology_file", [&](const std::string& k) { return toml_text(path, k, c.topology_file, true); });
  add("extensions", "partition", [&](const std::string& k) { return toml_text(path, k, c.partition, false); });
  add("extensions", "max_gpus", [&](const std::string& k) { return toml_whole(path, k, c.max_gpus, 1, 1000000); });
  add("extensions", "max_lease_minutes",
      [&](const std::string& k) { return toml_whole(path, k, c.max_lease_minutes, 1, 525600); });
  add("extensions", "kill_wait_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.kill_wait_seconds, 0, 65535); });
  add("launch", "network", [&](const std::string& k) { return toml_network(path, k, c.network); });
  add("launch", "protocol_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.protocol_seconds, 1, 86400); });
  add("launch", "start_seconds", [&](const std::string& k) { return toml_whole(path, k, c.start_seconds, 1, 86400); });
  add("launch", "acquire_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.acquire_seconds, 1, 86400); });
  add("launch", "switch_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.switch_seconds, 1, 86400); });
  add("launch", "hang_seconds", [&](const std::string& k) { return toml_whole(path, k, c.hang_seconds, 1, 86400); });
  add("launch", "heartbeat_seconds",
      [&](const std::string& k) { return toml_real(path, k, c.heartbeat_seconds, 0.1, 60); });
  add("launch", "spares", [&](const std::string& k) { return toml_truth(path, k, c.spares); });
  add("launch", "work_dir", [&](const std::string& k) { return toml_text(path, k, c.work_dir, true); });
  return tables;
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
  const toml::value root = parse_toml_file(path);
  config.path = path;
  const auto tables = known_keys(config, path);
  for (const auto& [table, content] : root.as_table()) {
    if (read_hardware_section(path, table, content, config.hardware, kManual)) continue;
    const auto known = tables.find(table);
    if (known == tables.end()) fail_toml(path, content, table, std::string("unknown table; see ") + kManual);
    read_toml_table(path, table, content, known->second, kManual);
  }
  check_hardware(path, config.hardware);
  return config;
}

}  // namespace espalier::wire
