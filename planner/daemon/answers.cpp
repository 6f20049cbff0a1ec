#include "planner/daemon/answers.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/answers_json.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/gate.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr std::size_t kLongestWish = 4096, kMostWished = 4096;

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

// Of a migrate: where to.
MoveWish wish_of(const Json& arguments) {
  MoveWish wish;
  const auto text = [&](const char* name) {
    const auto found = arguments.find(name);
    if (found == arguments.end()) return std::string();
    if (!found->is_string() || found->get<std::string>().size() > kLongestWish)
      throw Error(std::string("query: ") + name + " is no text, or too long");
    return found->get<std::string>();
  };
  wish.type = text("type");
  wish.nodes = expand_hosts(text("nodes").c_str(), kMostWished);
  if (!wish.type.empty() && !wish.nodes.empty()) throw Error("query: give a type or nodes, not both");
  if (wish.nodes.empty() && !text("nodes").empty()) throw Error("query: nodes is not a list of nodes");
  return wish;
}

}  // namespace

Answers::Answers(Planner& planner, const wire::Config& config)
    : planner_(planner), queue_profiles_(planner), config_(config), started_(clock_seconds()) {}

Json Answers::answer(const wire::Query& query, const wire::Peer& peer) {
  const std::string& what = query.what;
  if (!query.arguments.is_object()) throw Error("query: arguments must be an object");
  if (what == "ping") return ping();
  if (QueueProfiles::knows(what)) return queue_profiles_.answer(query, peer);
  if (what == "forget") return forget(query.arguments, peer);
  if (what == "config") return config();
  if (what == "hold" || what == "release" || what == "reclaim" || what == "migrate")
    return control(what, query.arguments, peer);
  throw Error("query \"" + printable(what, 40) + "\": not known to this espalierd; are both of the same version?");
}

Json Answers::ping() const {
  Json json{{"version", ESPALIER_VERSION},
            {"pid", ::getpid()},
            {"uptime", std::max(0.0, clock_seconds() - started_)},
            {"shadow", planner_.settings().shadow},
            {"jobs", planner_.jobs().size()},
            {"slurm", planner_.last_snapshot() ? "up" : "not yet known"}};
  if (const auto trouble = planner_.slurm_trouble()) json["slurm"] = *trouble;
  return json;
}

Viewer Answers::viewer_of(const wire::Peer& peer) const {
  const auto& snapshot = planner_.last_snapshot();
  return {peer.uid, (snapshot && !snapshot->private_jobs) || is_administrator(peer.uid, planner_.slurm_user())};
}

Json Answers::config() const {
  const HardwareOverrides& hardware = config_.hardware;
  Json json{{"path", config_.path},
            {"planner.host", config_.planner_host},
            {"planner.port", config_.planner_port},
            {"planner.run_dir", config_.run_dir},
            {"planner.state_dir", config_.state_dir},
            {"planner.log_level", config_.log_level},
            {"planner.poll_seconds", config_.poll_seconds},
            {"planner.cooldown_seconds", config_.cooldown_seconds},
            {"planner.lambda", config_.lambda},
            {"planner.hysteresis", config_.hysteresis},
            {"planner.trade", config_.trade},
            {"planner.migrate_gain", config_.migrate_gain},
            {"planner.trial_percent", config_.trial_percent},
            {"planner.plan_trials", config_.plan_trials},
            {"planner.least_gain", config_.least_gain},
            {"planner.idle_seconds", config_.idle_seconds},
            {"planner.idle_forecast", config_.idle_forecast},
            {"planner.reclaim", config_.reclaim},
            {"planner.policy", config_.policy},
            {"planner.share_profiles", config_.share_profiles},
            {"planner.topology_file", config_.topology_file},
            {"planner.store_mb", config_.store_mb},
            {"flextrain.most_times", config_.flextrain_most_times},
            {"flextrain.least_probability", config_.flextrain_least_probability},
            {"flextrain.window_hours", config_.flextrain_window_hours},
            {"flextrain.least_gpus", config_.flextrain_least_gpus},
            {"arena.search_depth", config_.arena_search_depth},
            {"extensions.partition", config_.partition},
            {"extensions.qos", config_.extension_qos},
            {"extensions.constraint", config_.extension_constraint},
            {"extensions.reservation", config_.extension_reservation},
            {"extensions.account", config_.extension_account},
            {"extensions.comment", config_.extension_comment},
            {"extensions.grants", planner_.settings().grant != nullptr},
            {"extensions.max_gpus", config_.max_gpus},
            {"extensions.max_lease_minutes", config_.max_lease_minutes},
            {"extensions.kill_wait_seconds", config_.kill_wait_seconds},
            {"health.command", config_.health_command},
            {"health.timeout_seconds", config_.health_timeout_seconds},
            {"health.valid_minutes", config_.health_valid_minutes},
            {"health.gpu_errors", config_.health_gpu_errors},
            {"profiling.gpus", config_.profiling_gpus},
            {"profiling.per_user", config_.profiling_per_user},
            {"profiling.minutes", config_.profiling_minutes},
            {"metrics.address", config_.metrics_address},
            {"metrics.jobs", config_.metrics_jobs},
            {"launch.network", config_.network},
            {"launch.protocol_seconds", config_.protocol_seconds},
            {"launch.start_seconds", config_.start_seconds},
            {"launch.plan_seconds", config_.plan_seconds},
            {"launch.wide_seconds", config_.wide_seconds},
            {"launch.acquire_seconds", config_.acquire_seconds},
            {"launch.switch_seconds", config_.switch_seconds},
            {"launch.spares", config_.spares},
            {"launch.hang_seconds", config_.hang_seconds},
            {"launch.heartbeat_seconds", config_.heartbeat_seconds},
            {"launch.node_setup_seconds", config_.node_setup_seconds},
            {"launch.adoption_minutes", config_.adoption_minutes},
            {"launch.base_partition", config_.base_partition},
            {"launch.work_dir", config_.work_dir},
            {"network.tp_gb_s", hardware.tp_gb_s},
            {"network.dp_gb_s", hardware.dp_gb_s},
            {"network.nic_gb_s", hardware.nic_gb_s},
            {"network.nics", hardware.nics},
            {"network.crossing", hardware.crossing},
            {"network.v0_mb", hardware.v0_mb},
            {"network.v_sat_mb", hardware.v_sat_mb},
            {"shadow", planner_.settings().shadow}};
  json["share.weight"] = config_.share.fair_share ? "fairshare" : "equal";
  json["objective.kind"] = to_string(config_.objective.kind);
  json["objective.late_deadlines"] = config_.refuses_late_deadlines ? "refuse" : "warn";
  for (const auto& [account, weight] : config_.objective.account_weights)
    json["objective.account_weights." + account] = weight;
  for (const auto& [qos, weight] : config_.objective.qos_weights) json["objective.qos_weights." + qos] = weight;
  json["share.account_gpus"] = config_.share.account_gpus;
  for (const auto& [account, gpus] : config_.share.accounts) json["share.accounts." + account] = gpus;
  for (const ShareRule& rule : config_.share.rules) json["share.rules." + rule.name] = describe_rule(rule);
  if (!hardware.measured.empty()) json["network.measured"] = hardware.measured;
  const wire::Calibrated& calibrated = config_.calibrated;
  json["calibrated.path"] = calibrated.path;
  json["calibrated.used"] = listed(calibrated.used);
  json["calibrated.overruled"] = listed(calibrated.overruled);
  if (!calibrated.problem.empty()) json["calibrated.problem"] = calibrated.problem;
  for (const auto& [type, gpu] : hardware.gpus) {
    if (!gpu.measured.empty()) json["gpu." + type + ".measured"] = gpu.measured;
    json["gpu." + type + ".tflops"] = gpu.tflops;
    json["gpu." + type + ".memory_gb"] = gpu.memory_gb;
    json["gpu." + type + ".memory_bandwidth_gb_s"] = gpu.memory_bandwidth_gb_s;
    json["gpu." + type + ".nic_gb_s"] = gpu.nic_gb_s;
    json["gpu." + type + ".nics"] = gpu.nics;
  }
  return json;
}

Json Answers::control(const std::string& what, const Json& arguments, const wire::Peer& peer) {
  const auto id = number<JobId>(arguments, "job");
  const auto live = planner_.jobs().find(id);
  if (live == planner_.jobs().end() || !viewer_of(peer).sees(live->second.job.uid))
    throw Error("job " + std::to_string(id) + ": no running elastic job");
  if (peer.uid != live->second.job.uid && !is_administrator(peer.uid, planner_.slurm_user()))
    throw Error("job " + std::to_string(id) + ": belongs to uid " + std::to_string(live->second.job.uid) +
                "; only its owner, root and SlurmUser may " + what + " it");
  if (what == "reclaim") return {{"decision", planner_.reclaim(id)}};
  if (what == "migrate") return {{"decision", planner_.migrate(id, wish_of(arguments))}};
  planner_.hold(id, what == "hold");
  return {{"held", what == "hold"}};
}

Json Answers::forget(const Json& arguments, const wire::Peer& peer) {
  const bool administrator = is_administrator(peer.uid, planner_.slurm_user());
  std::vector<std::int64_t> ids;
  if (arguments.value("all", false)) {
    ids =
        planner_.store().knowledge_ids(administrator ? std::nullopt : std::optional(peer.uid), Store::kKnowledgeInAll);
  } else {
    const auto id = number<std::int64_t>(arguments, "profile");
    const auto row = planner_.store().knowledge(id);
    if (!row || !viewer_of(peer).sees(row->uid))
      throw Error("profile " + std::to_string(id) + ": there is none; see espalier show profiles");
    if (!administrator && row->uid != peer.uid)
      throw Error("profile " + std::to_string(id) + ": belongs to uid " + std::to_string(row->uid) +
                  "; only its owner, root and SlurmUser may forget it");
    ids.push_back(id);
  }
  for (const std::int64_t id : ids) planner_.forget(id);
  return {{"forgotten", ids}};
}

}  // namespace espalier
