#include "planner/daemon/answers.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/gate.hpp"
#include "planner/daemon/growth_obstacles.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr int kMostDecisions = 1000;

template <class Number>
Number number(const Json& arguments, const char* key) {
  const auto found = arguments.find(key);
  if (found == arguments.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0 ||
      found->get<std::int64_t>() > static_cast<std::int64_t>(0x7fffffff))
    throw Error(std::string(key) + ": must be a number");
  return found->get<Number>();
}

Json describe_job(const ElasticJob& job, bool connected, bool ended) {
  Json json = job;
  std::size_t gpus = 0;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings) gpus += held.gpus.size();
  json["gpus"] = gpus;
  json["connected"] = connected;
  json["ended"] = ended;
  json["plan_text"] = job.plan ? Json(describe(*job.plan)) : Json(nullptr);
  const double tokens = static_cast<double>(job.model.global_batch) * job.model.sequence;
  json["tokens_per_second"] = job.step_seconds > 0 && tokens > 0 ? Json(tokens / job.step_seconds) : Json(nullptr);
  return json;
}

Json describe_decision(const DecisionRecord& record, bool candidates) {
  Json json = record.decision;
  json["plan_text"] = record.decision.plan.stages.empty() ? Json(nullptr) : Json(describe(record.decision.plan));
  json["moments"] = record.moments;
  json["phases_ms"] = record.phases_ms;
  json["generation"] = record.generation;
  json["step"] = record.step;
  if (!candidates) json.erase("candidates");
  return json;
}

}  // namespace

Answers::Answers(Planner& planner, const wire::Config& config)
    : planner_(planner), config_(config), started_(clock_seconds()) {}

Json Answers::answer(const wire::Query& query, const wire::Peer& peer) {
  const std::string& what = query.what;
  if (!query.arguments.is_object()) throw Error("query: arguments must be an object");
  if (what == "ping") return ping();
  if (what == "job") return job(query.arguments);
  if (what == "jobs") return jobs();
  if (what == "decision") return decision(query.arguments);
  if (what == "decisions") return decisions(query.arguments);
  if (what == "nodes") return nodes();
  if (what == "config") return config();
  if (what == "explain") return explain(query.arguments);
  if (what == "hold" || what == "release" || what == "reclaim") return control(what, query.arguments, peer);
  throw Error("query \"" + printable(what, 40) + "\": not known to this espalierd; are both of the same version?");
}

Json Answers::ping() const {
  Json json{{"version", ESPALIER_VERSION},          {"pid", ::getpid()},
            {"uptime", clock_seconds() - started_}, {"shadow", planner_.settings().shadow},
            {"jobs", planner_.jobs().size()},       {"slurm", planner_.last_snapshot() ? "up" : "not yet known"}};
  if (const auto trouble = planner_.slurm_trouble()) json["slurm"] = *trouble;
  return json;
}

Json Answers::job(const Json& arguments) const {
  const auto id = number<JobId>(arguments, "job");
  Json json;
  if (const auto live = planner_.jobs().find(id); live != planner_.jobs().end()) {
    json = describe_job(live->second.job, live->second.link != nullptr, false);
  } else {
    const auto stored = planner_.store().job(id);
    if (!stored) throw Error("job " + std::to_string(id) + ": not an elastic job that this planner has seen");
    json = describe_job(stored->job, false, stored->ended);
  }
  const Json known = planner_.store().coefficients(id).value_or(Json::object());
  json["coefficients"] = known.value("values", Json(nullptr));
  json["coefficients_settled"] = known.value("settled", false);
  return {{"job", std::move(json)}};
}

Json Answers::jobs() const {
  Json list = Json::array();
  for (const auto& [id, live] : planner_.jobs()) list.push_back(describe_job(live.job, live.link != nullptr, false));
  return {{"jobs", std::move(list)}};
}

Json Answers::decision(const Json& arguments) const {
  const auto id = number<std::int64_t>(arguments, "decision");
  const auto record = planner_.store().decision(id);
  if (!record) throw Error("decision " + std::to_string(id) + ": there is none, or it is too old");
  return {{"decision", describe_decision(*record, true)}};
}

Json Answers::decisions(const Json& arguments) const {
  std::optional<JobId> job;
  if (arguments.contains("job")) job = number<JobId>(arguments, "job");
  const int limit = arguments.contains("limit") ? std::min(number<int>(arguments, "limit"), kMostDecisions) : 100;
  auto records = planner_.store().decisions(job, limit);
  Json list = Json::array();
  for (auto record = records.rbegin(); record != records.rend(); ++record)
    list.push_back(describe_decision(*record, false));
  return {{"decisions", std::move(list)}};
}

Json Answers::nodes() const {
  const auto& snapshot = planner_.last_snapshot();
  if (!snapshot) throw Error("nodes: Slurm has not answered yet: " + planner_.slurm_trouble().value_or("try again"));
  const auto known = planner_.store().topologies();
  Json list = Json::array();
  for (const NodeView& node : snapshot->cluster.nodes) {
    Json json = node;
    json["idle_gpus"] = node.idle_gpus();
    json["topology_known"] = known.contains(node.name);
    list.push_back(std::move(json));
  }
  // Host lists are folded, as Slurm prints them: every name of every job would not fit into a
  // frame.
  // Cached, since many jobs share their partition's list.
  std::map<std::vector<std::string>, std::string> folded;
  const auto fold = [&](const std::vector<std::string>& names) {
    auto [at, fresh] = folded.try_emplace(names);
    if (fresh && !names.empty()) at->second = fold_hosts(names);
    return at->second;
  };
  Json waiting = Json::array();
  for (const WaitingJob& job : snapshot->cluster.waiting)
    waiting.push_back({{"id", job.id},
                       {"gpus", job.gpus},
                       {"nodes", job.nodes},
                       {"priority", job.priority},
                       {"only_nodes", fold(job.only_nodes)}});
  return {{"nodes", std::move(list)}, {"waiting", std::move(waiting)}, {"time", snapshot->time}};
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
            {"planner.least_gain", config_.least_gain},
            {"planner.idle_seconds", config_.idle_seconds},
            {"planner.reclaim", config_.reclaim},
            {"planner.policy", config_.policy},
            {"planner.topology_file", config_.topology_file},
            {"extensions.partition", config_.partition},
            {"extensions.max_gpus", config_.max_gpus},
            {"extensions.max_lease_minutes", config_.max_lease_minutes},
            {"extensions.kill_wait_seconds", config_.kill_wait_seconds},
            {"launch.network", config_.network},
            {"launch.protocol_seconds", config_.protocol_seconds},
            {"launch.start_seconds", config_.start_seconds},
            {"launch.acquire_seconds", config_.acquire_seconds},
            {"launch.switch_seconds", config_.switch_seconds},
            {"launch.spares", config_.spares},
            {"launch.hang_seconds", config_.hang_seconds},
            {"launch.heartbeat_seconds", config_.heartbeat_seconds},
            {"launch.work_dir", config_.work_dir},
            {"network.tp_gb_s", hardware.tp_gb_s},
            {"network.dp_gb_s", hardware.dp_gb_s},
            {"network.nic_gb_s", hardware.nic_gb_s},
            {"network.nics", hardware.nics},
            {"network.crossing", hardware.crossing},
            {"network.v0_mb", hardware.v0_mb},
            {"network.v_sat_mb", hardware.v_sat_mb},
            {"shadow", planner_.settings().shadow}};
  for (const auto& [type, gpu] : hardware.gpus) {
    json["gpu." + type + ".tflops"] = gpu.tflops;
    json["gpu." + type + ".memory_gb"] = gpu.memory_gb;
    json["gpu." + type + ".memory_bandwidth_gb_s"] = gpu.memory_bandwidth_gb_s;
  }
  return json;
}

Json Answers::explain(const Json& arguments) const {
  const auto id = number<JobId>(arguments, "job");
  Json json = job(arguments);
  const auto live = planner_.jobs().find(id);
  json["obstacles"] = live == planner_.jobs().end()
                          ? std::vector<std::string>{"it does not run"}
                          : growth_obstacles(live->second, planner_.last_snapshot(), planner_.weighed(id),
                                             planner_.settings(), clock_seconds());
  Json list = Json::array();
  for (const auto& record : planner_.store().decisions(id, 5)) list.push_back(describe_decision(record, true));
  json["decisions"] = std::move(list);  // newest first
  Json steps = Json::array();
  for (const auto& t : planner_.store().transitions(id, 20))
    steps.push_back({{"time", t.time}, {"from", t.from}, {"event", t.event}, {"to", t.to}, {"decision", t.decision}});
  json["transitions"] = std::move(steps);
  return json;
}

Json Answers::control(const std::string& what, const Json& arguments, const wire::Peer& peer) {
  const auto id = number<JobId>(arguments, "job");
  const auto live = planner_.jobs().find(id);
  if (live == planner_.jobs().end()) throw Error("job " + std::to_string(id) + ": no running elastic job");
  if (peer.uid != live->second.job.uid && !is_administrator(peer.uid, planner_.slurm_user()))
    throw Error("job " + std::to_string(id) + ": belongs to uid " + std::to_string(live->second.job.uid) +
                "; only its owner, root and SlurmUser may " + what + " it");
  if (what == "reclaim") return {{"decision", planner_.reclaim(id)}};
  planner_.hold(id, what == "hold");
  return {{"held", what == "hold"}};
}

}  // namespace espalier
