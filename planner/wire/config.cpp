#include "planner/wire/config.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "planner/core/error.hpp"
#include "planner/wire/event.h"
#include "planner/wire/hardware_keys.hpp"
#include "planner/wire/objective_keys.hpp"
#include "planner/wire/share_keys.hpp"

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
  add("planner", "trade", [&](const std::string& k) { return toml_real(path, k, c.trade, 0, 1000); });
  add("planner", "plan_trials", [&](const std::string& k) { return toml_whole(path, k, c.plan_trials, 0, 16); });
  add("planner", "trial_percent", [&](const std::string& k) { return toml_real(path, k, c.trial_percent, 0, 1000); });
  add("planner", "migrate_gain", [&](const std::string& k) { return toml_real(path, k, c.migrate_gain, 0, 1000); });
  add("planner", "hysteresis", [&](const std::string& k) { return toml_real(path, k, c.hysteresis, 0, 1); });
  add("planner", "least_gain", [&](const std::string& k) { return toml_real(path, k, c.least_gain, 1, 10); });
  add("planner", "idle_seconds", [&](const std::string& k) { return toml_real(path, k, c.idle_seconds, 0, 31536000); });
  add("planner", "idle_forecast", [&](const std::string& k) { return toml_truth(path, k, c.idle_forecast); });
  add("planner", "reclaim", [&](const std::string& k) { return toml_truth(path, k, c.reclaim); });
  add("planner", "policy", [&](const std::string& k) {
    return toml_one_of(path, k, c.policy, {"espalier", "suika", "flextrain", "flextrain-dp", "arena"});
  });
  add("flextrain", "most_times",
      [&](const std::string& k) { return toml_real(path, k, c.flextrain_most_times, 1, 1000); });
  add("flextrain", "least_probability",
      [&](const std::string& k) { return toml_real(path, k, c.flextrain_least_probability, 0.001, 0.999); });
  add("flextrain", "window_hours",
      [&](const std::string& k) { return toml_real(path, k, c.flextrain_window_hours, 0.01, 24); });
  add("flextrain", "least_gpus",
      [&](const std::string& k) { return toml_whole(path, k, c.flextrain_least_gpus, 1, 1000000); });
  add("arena", "search_depth",
      [&](const std::string& k) { return toml_whole(path, k, c.arena_search_depth, 1, 1000); });
  add("planner", "share_profiles", [&](const std::string& k) { return toml_truth(path, k, c.share_profiles); });
  add("planner", "topology_file", [&](const std::string& k) { return toml_text(path, k, c.topology_file, true); });
  add("planner", "store_mb", [&](const std::string& k) { return toml_whole(path, k, c.store_mb, 16, 1000000); });
  add("extensions", "partition", [&](const std::string& k) { return toml_text(path, k, c.partition, false); });
  for (const auto& [key, text] :
       std::initializer_list<std::pair<const char*, std::string*>>{{"qos", &c.extension_qos},
                                                                   {"constraint", &c.extension_constraint},
                                                                   {"reservation", &c.extension_reservation},
                                                                   {"account", &c.extension_account},
                                                                   {"comment", &c.extension_comment}})
    add("extensions", key, [&, to = text](const std::string& k) { return toml_text(path, k, *to, true); });
  add("extensions", "max_gpus", [&](const std::string& k) { return toml_whole(path, k, c.max_gpus, 1, 1000000); });
  add("extensions", "max_lease_minutes",
      [&](const std::string& k) { return toml_whole(path, k, c.max_lease_minutes, 1, 525600); });
  add("extensions", "kill_wait_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.kill_wait_seconds, 0, 65535); });
  add("health", "command", [&](const std::string& k) {
    const auto text = toml_text(path, k, c.health_command, true);
    return TomlSetter([text, &c, path, k](const toml::value& value) {
      text(value);
      if (!c.health_command.empty() && c.health_command.front() != '/')
        fail_toml(path, value, k, "must be the whole path of a program, without arguments");
    });
  });
  add("health", "timeout_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.health_timeout_seconds, 1, 600); });
  add("health", "valid_minutes",
      [&](const std::string& k) { return toml_real(path, k, c.health_valid_minutes, 0.1, 1440); });
  add("health", "gpu_errors", [&](const std::string& k) { return toml_truth(path, k, c.health_gpu_errors); });
  add("profiling", "gpus", [&](const std::string& k) { return toml_whole(path, k, c.profiling_gpus, 0, 1000000); });
  add("profiling", "per_user",
      [&](const std::string& k) { return toml_whole(path, k, c.profiling_per_user, 0, 1000000); });
  add("profiling", "minutes", [&](const std::string& k) { return toml_whole(path, k, c.profiling_minutes, 1, 1440); });
  add("metrics", "address", [&](const std::string& k) { return toml_address(path, k, c.metrics_address); });
  add("metrics", "jobs", [&](const std::string& k) { return toml_whole(path, k, c.metrics_jobs, 0, 100000); });
  add("launch", "network", [&](const std::string& k) { return toml_network(path, k, c.network); });
  add("launch", "protocol_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.protocol_seconds, 1, 86400); });
  add("launch", "start_seconds", [&](const std::string& k) { return toml_whole(path, k, c.start_seconds, 1, 86400); });
  add("launch", "acquire_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.acquire_seconds, 1, 86400); });
  add("launch", "plan_seconds", [&](const std::string& k) { return toml_real(path, k, c.plan_seconds, 0, 3600); });
  add("launch", "wide_seconds", [&](const std::string& k) { return toml_real(path, k, c.wide_seconds, 0, 3600); });
  add("launch", "switch_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.switch_seconds, 1, 86400); });
  add("launch", "hang_seconds", [&](const std::string& k) { return toml_whole(path, k, c.hang_seconds, 1, 86400); });
  add("launch", "node_setup_seconds",
      [&](const std::string& k) { return toml_whole(path, k, c.node_setup_seconds, 1, 86400); });
  add("launch", "adoption_minutes",
      [&](const std::string& k) { return toml_real(path, k, c.adoption_minutes, 0, 1440); });
  add("launch", "base_partition", [&](const std::string& k) { return toml_text(path, k, c.base_partition, true); });
  add("launch", "heartbeat_seconds",
      [&](const std::string& k) { return toml_real(path, k, c.heartbeat_seconds, 0.1, 60); });
  add("launch", "spares", [&](const std::string& k) { return toml_truth(path, k, c.spares); });
  add("launch", "work_dir", [&](const std::string& k) { return toml_text(path, k, c.work_dir, true); });
  return tables;
}

// espalier.toml, or nothing where there is none.
std::optional<toml::value> read_file(const std::string& given, std::string& path) {
  path = given;
  if (const char* environment = std::getenv("ESPALIER_CONF"); path.empty() && environment != nullptr)
    path = environment;
  if (path.empty()) {
    if (::access(ESPALIER_CONFIG, F_OK) != 0) return std::nullopt;
    path = ESPALIER_CONFIG;
  }
  return parse_toml_file(path);
}

void read_all_but_hardware(const toml::value& root, Config& config) {
  const auto tables = known_keys(config, config.path);
  for (const auto& [table, content] : root.as_table()) {
    if (table == "network" || table == "gpu") continue;
    if (table == "share") {
      read_share_section(config.path, content, config.share, kManual);
      continue;
    }
    if (table == "objective") {
      read_objective_section(config.path, content, config.objective, config.refuses_late_deadlines, kManual);
      continue;
    }
    const auto known = tables.find(table);
    if (known == tables.end()) fail_toml(config.path, content, table, std::string("unknown table; see ") + kManual);
    read_toml_table(config.path, table, content, known->second, kManual);
  }
  if (config.objective.kind != ObjectiveKind::jct && config.policy != "espalier")
    fail_toml(config.path, root.as_table().at("objective"), "objective.kind",
              "\"" + to_string(config.objective.kind) + "\" is of policy espalier, but planner.policy is \"" +
                  config.policy + "\"; leave one of them out");
}

void read_hardware(const std::string& path, const toml::value& root, HardwareOverrides& hardware) {
  for (const auto& [table, content] : root.as_table()) read_hardware_section(path, table, content, hardware, kManual);
}

// Reads it into the hardware before espalier.toml's own keys come over it.
void read_calibrated(const std::set<std::string>& given, Config& config) {
  const std::string path = calibrated_path(config);
  if (::access(path.c_str(), F_OK) != 0) return;
  Calibrated& calibrated = config.calibrated;
  calibrated.path = path;
  try {
    const toml::value root = parse_toml_file(path);
    HardwareOverrides hardware;
    for (const auto& [table, content] : root.as_table())
      if (!read_hardware_section(path, table, content, hardware, kManual))
        fail_toml(path, content, table, std::string("unknown table; see ") + kManual);
    check_hardware(path, hardware);
    // These two describe one curve.
    const bool own_curve = given.contains("network.v0_mb") || given.contains("network.v_sat_mb");
    if (own_curve) {
      hardware.v0_mb = HardwareOverrides().v0_mb;
      hardware.v_sat_mb = HardwareOverrides().v_sat_mb;
    }
    // One figure of the site's own for the rails of all nodes wins over those that were measured by type.
    const bool own_speed = given.contains("network.nic_gb_s"), own_number = given.contains("network.nics");
    for (auto& [type, gpu] : hardware.gpus) {
      if (own_speed) gpu.nic_gb_s = 0;
      if (own_number) gpu.nics = 0;
    }
    for (const std::string& key : hardware_keys(root)) {
      const bool curve = key == "network.v0_mb" || key == "network.v_sat_mb";
      const bool rail = (own_speed && key.ends_with(".nic_gb_s")) || (own_number && key.ends_with(".nics"));
      const bool overruled = given.contains(key) || (curve && own_curve) || rail;
      (overruled ? calibrated.overruled : calibrated.used).insert(key);
    }
    config.hardware = hardware;
  } catch (const Error& error) {
    calibrated.problem = error.what();
  }
}

Config load(const std::string& given, bool with_calibrated) {
  Config config;
  const auto root = read_file(given, config.path);
  if (root) read_all_but_hardware(*root, config);
  std::set<std::string> keys;
  if (root) {
    HardwareOverrides own;  // first alone, so that a wrong key is found whatever was calibrated
    read_hardware(config.path, *root, own);
    check_hardware(config.path, own);
    keys = hardware_keys(*root);
  }
  if (with_calibrated) read_calibrated(keys, config);
  if (root) read_hardware(config.path, *root, config.hardware);
  return config;
}

}  // namespace

Config load_config(const std::string& path) { return load(path, false); }
Config load_planner_config(const std::string& path) { return load(path, true); }
std::string calibrated_path(const Config& config) { return config.state_dir + "/calibrated.toml"; }

}  // namespace espalier::wire
