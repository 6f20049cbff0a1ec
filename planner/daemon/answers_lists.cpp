// Answers that list things. Each comes in pages: a reply with "next" is not the last, and the same
// question with that number as "page" gets what follows.
#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/answers.hpp"
#include "planner/daemon/answers_json.hpp"

namespace espalier {
namespace {

constexpr int kMostDecisions = 1000;
// A page may be one entry larger.
constexpr std::size_t kPage = 256u << 10;
// A larger job is listed without what makes it large.
constexpr std::size_t kMostEntry = 32u << 10;

std::int64_t page_of(const Json& arguments, std::int64_t first) {
  return arguments.contains("page") ? number<std::int64_t>(arguments, "page") : first;
}

}  // namespace

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

Json Answers::jobs(const Json& arguments, const Viewer& viewer) const {
  Json list = Json::array();
  std::size_t bytes = 0;
  const auto& all = planner_.jobs();
  for (auto at = all.lower_bound(static_cast<JobId>(page_of(arguments, 0))); at != all.end(); ++at) {
    const LiveJob& live = at->second;
    if (!viewer.sees(live.job.uid)) continue;
    if (bytes > kPage) return {{"jobs", std::move(list)}, {"next", at->first}};
    Json entry = describe_job(live.job, live.link != nullptr, false);
    std::size_t size = entry.dump().size();
    if (size > kMostEntry) {
      ElasticJob less = live.job;
      less.plan.reset();
      less.parallel.first.reset();
      for (auto* list_of : {&less.anchor, &less.extensions}) list_of->clear();
      less.unfit.clear();
      const Json gpus = entry["gpus"];
      entry = describe_job(less, live.link != nullptr, false);
      entry["gpus"] = gpus;
      entry["shortened"] = true;
      size = entry.dump().size();
    }
    bytes += size;
    list.push_back(std::move(entry));
  }
  return {{"jobs", std::move(list)}};
}

Json Answers::decisions(const Json& arguments, const Viewer& viewer) const {
  DecisionQuery query;
  if (arguments.contains("job")) query.job = number<JobId>(arguments, "job");
  if (arguments.contains("limit")) query.limit = std::min(number<int>(arguments, "limit"), kMostDecisions);
  if (!viewer.all) query.uid = viewer.uid;
  query.before = page_of(arguments, query.before);
  query.bytes = kPage;
  query.candidates = false;
  DecisionPage page = planner_.store().decisions(query);
  Json list = Json::array();
  for (auto record = page.records.rbegin(); record != page.records.rend(); ++record)
    list.push_back(describe_decision(*record, false));
  Json reply{{"decisions", std::move(list)}};
  if (page.more) reply["next"] = page.records.back().decision.id;
  return reply;
}

// A page counts the nodes first and then the jobs that wait. An owner that the user may not see is
// told as an unknown one.
Json Answers::nodes(const Json& arguments, const Viewer& viewer) const {
  const auto& snapshot = planner_.last_snapshot();
  if (!snapshot) throw Error("nodes: Slurm has not answered yet: " + planner_.slurm_trouble().value_or("try again"));
  const auto hidden = [&](JobId id) {
    const auto job = snapshot->jobs.find(id);
    return !viewer.all && (job == snapshot->jobs.end() || !viewer.sees(job->second.uid));
  };
  Json reply{{"nodes", Json::array()}, {"waiting", Json::array()}, {"time", snapshot->time}};
  const auto& nodes = snapshot->cluster.nodes;
  const auto first = static_cast<std::size_t>(page_of(arguments, 0));
  std::size_t bytes = 0;
  const auto known = planner_.store().topologies();
  for (std::size_t at = first; at < nodes.size(); ++at) {
    if (bytes > kPage) return reply["next"] = at, reply;
    NodeView node = nodes[at];
    for (JobId& owner : node.gpu_owner)
      if (owner != 0 && hidden(owner)) owner = kUnknownOwner;
    Json json = node;
    json["idle_gpus"] = node.idle_gpus();
    json["topology_known"] = known.contains(node.name);
    bytes += json.dump().size();
    reply["nodes"].push_back(std::move(json));
  }
  // Host lists are folded, as Slurm prints them. Cached, since many jobs share their partition's list.
  std::map<std::vector<std::string>, std::string> folded;
  const auto fold = [&](const std::vector<std::string>& names) {
    auto [at, fresh] = folded.try_emplace(names);
    if (fresh && !names.empty()) at->second = fold_hosts(names);
    return at->second;
  };
  const auto& waiting = snapshot->cluster.waiting;
  for (std::size_t at = first > nodes.size() ? first - nodes.size() : 0; at < waiting.size(); ++at) {
    const WaitingJob& job = waiting[at];
    if (hidden(job.id)) continue;
    if (bytes > kPage) return reply["next"] = nodes.size() + at, reply;
    Json json{{"id", job.id},
              {"gpus", job.gpus},
              {"nodes", job.nodes},
              {"priority", job.priority},
              {"only_nodes", fold(job.only_nodes)}};
    bytes += json.dump().size();
    reply["waiting"].push_back(std::move(json));
  }
  return reply;
}

}  // namespace espalier
