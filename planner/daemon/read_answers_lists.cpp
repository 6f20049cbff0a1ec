// Answers that list things. Each comes in pages: a reply with "next" is not the last, and the same
// question with that number as "page" gets what follows.
#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/daemon/answers_json.hpp"
#include "planner/daemon/read_answers.hpp"

namespace espalier {
namespace {

constexpr int kMostDecisions = 1000;
// A page may be one entry larger.
constexpr std::size_t kPage = 256u << 10;
// A larger job is listed without what makes it large.
constexpr std::size_t kMostEntry = 32u << 10;

// The text of an answer that is one list or several. Each entry becomes text once, and its size is known then.
class ListText {
 public:
  explicit ListText(const char* name) { begin(name); }
  // A further list of the same answer.
  void begin(const char* name) {
    text_ += text_.empty() ? "{\"" : "],\"";
    text_ += name;
    text_ += "\":[";
    empty_ = true;
  }
  void add(const std::string& entry) {
    if (!std::exchange(empty_, false)) text_ += ',';
    text_ += entry;
  }
  std::size_t size() const { return text_.size(); }
  // `more`: another member of the object; empty: there is none.
  std::string end(std::optional<std::int64_t> next = std::nullopt, const std::string& more = "") && {
    text_ += ']';
    if (next) text_ += ",\"next\":" + std::to_string(*next);
    if (!more.empty()) text_ += ',' + more;
    return std::move(text_) + '}';
  }

 private:
  std::string text_;
  bool empty_ = true;
};

std::int64_t page_of(const Json& arguments, std::int64_t first) {
  return arguments.contains("page") ? number<std::int64_t>(arguments, "page") : first;
}

}  // namespace

Json describe_job(const ElasticJob& job, bool connected, bool ended) {
  Json json = job;
  json["parallel"].erase("lists");
  if (const auto own = told_lists(job))
    json["own_lists"] = {{"stages", own->stages()},
                         {"micro_batches", own->micro_batches()},
                         {"run", job.plan && own->run_on(*job.plan)}};
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

std::string ReadAnswers::jobs(const Asked& asked) {
  const auto& [arguments, view, viewer] = asked;
  ListText list("jobs");
  const auto first = static_cast<JobId>(page_of(arguments, 0));
  auto at = std::lower_bound(view.jobs.begin(), view.jobs.end(), first,
                             [](const auto& one, JobId id) { return one->job.id < id; });
  for (; at != view.jobs.end(); ++at) {
    const JobView& live = **at;
    if (!viewer.sees(live.job.uid)) continue;
    if (list.size() > kPage) return std::move(list).end(live.job.id);
    const auto describe = [&](const ElasticJob& job) {
      Json one = describe_job(job, live.connected, false);
      if (live.movable) one["bases"] = live.bases;
      return one;
    };
    Json entry = describe(live.job);
    std::string text = text_of(entry);
    if (text.size() > kMostEntry) {
      ElasticJob less = live.job;
      less.plan.reset();
      less.parallel.first.reset();
      for (auto* list_of : {&less.anchor, &less.extensions}) list_of->clear();
      less.unfit.clear();
      const Json gpus = entry["gpus"];
      entry = describe(less);
      entry["gpus"] = gpus;
      entry["shortened"] = true;
      text = text_of(entry);
    }
    list.add(text);
  }
  return std::move(list).end();
}

std::string ReadAnswers::decisions(const Asked& asked) {
  const auto& [arguments, view, viewer] = asked;
  DecisionQuery query;
  if (arguments.contains("job")) query.job = number<JobId>(arguments, "job");
  if (arguments.contains("limit")) query.limit = std::min(number<int>(arguments, "limit"), kMostDecisions);
  if (!viewer.all) query.uid = viewer.uid;
  query.before = page_of(arguments, query.before);
  query.bytes = kPage;
  query.candidates = false;
  const DecisionPage page = store_.decisions(query);
  ListText list("decisions");
  for (auto record = page.records.rbegin(); record != page.records.rend(); ++record)
    list.add(text_of(describe_decision(*record, false)));
  return page.more ? std::move(list).end(page.records.back().decision.id) : std::move(list).end();
}

// A page counts the nodes first and then the jobs that wait. An owner that the user may not see is
// told as an unknown one.
std::string ReadAnswers::nodes(const Asked& asked) {
  const auto& [arguments, view, viewer] = asked;
  const SlurmSnapshot* snapshot = view.slurm.get();
  if (snapshot == nullptr) throw Error("nodes: Slurm has not answered yet: " + view.trouble.value_or("try again"));
  const auto hidden = [snapshot, &who = viewer](JobId id) {
    const auto job = snapshot->jobs.find(id);
    return !who.all && (job == snapshot->jobs.end() || !who.sees(job->second.uid));
  };
  ListText list("nodes");
  const std::string time = "\"time\":" + Json(snapshot->time).dump();
  const auto& nodes = snapshot->cluster.nodes;
  const auto first = static_cast<std::size_t>(page_of(arguments, 0));
  const auto known = store_.topologies();
  for (std::size_t at = first; at < nodes.size(); ++at) {
    if (list.size() > kPage) {
      list.begin("waiting");
      return std::move(list).end(static_cast<std::int64_t>(at), time);
    }
    NodeView node = nodes[at];
    for (JobId& owner : node.gpu_owner)
      if (owner != 0 && hidden(owner)) owner = kUnknownOwner;
    Json json = node;
    json["idle_gpus"] = node.idle_gpus();
    json["topology_known"] = known.contains(node.name);
    if (const auto slow = view.slow.find(node.name); slow != view.slow.end())
      json["slow"] = {{"share", slow->second.share}, {"jobs", slow->second.jobs}};
    if (const auto slow = view.slow_links.find(node.name); slow != view.slow_links.end())
      json["slow_links"] = {{"to", slow->second.to}, {"share", slow->second.share}, {"jobs", slow->second.jobs}};
    if (const auto unfit = view.unfit.find(node.name); unfit != view.unfit.end()) json["unfit_for"] = unfit->second;
    list.add(text_of(json));
  }
  list.begin("waiting");
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
    if (list.size() > kPage) return std::move(list).end(static_cast<std::int64_t>(nodes.size() + at), time);
    list.add(text_of({{"id", job.id},
                      {"gpus", job.gpus},
                      {"nodes", job.nodes},
                      {"tasks", job.tasks},
                      {"priority", job.priority},
                      {"only_nodes", fold(job.only_nodes)}}));
  }
  return std::move(list).end(std::nullopt, time);
}

}  // namespace espalier
