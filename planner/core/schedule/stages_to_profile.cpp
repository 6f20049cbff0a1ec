#include "planner/core/schedule/stages_to_profile.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/schedule/first_plan.hpp"

namespace espalier {
namespace {

constexpr std::size_t kLongestForm = 400;

std::vector<Holding> gpus_of_type(const ElasticJob& job, const Site& site, int type, int most) {
  std::vector<Holding> all;
  for (int node = 0; node < site.topology.nodes(); ++node) {
    Holding held{job.id, site.topology.name(node), {}};
    const auto& types = site.topology.gpu_types(node);
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] == type) held.gpus.push_back(static_cast<int>(i));
    if (!held.gpus.empty()) all.push_back(std::move(held));
  }
  // Large nodes first: few GPUs then lie on few nodes.
  std::stable_sort(all.begin(), all.end(),
                   [](const Holding& a, const Holding& b) { return a.gpus.size() > b.gpus.size(); });
  int left = most;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (left == 0) {
      all.resize(i);
      break;
    }
    all[i].gpus.resize(std::min(all[i].gpus.size(), static_cast<std::size_t>(left)));
    left -= static_cast<int>(all[i].gpus.size());
  }
  return all;
}

int count_of(const std::vector<Holding>& holdings) {
  int count = 0;
  for (const Holding& held : holdings) count += static_cast<int>(held.gpus.size());
  return count;
}

// The first `count` GPUs.
std::vector<Holding> first_of(std::vector<Holding> holdings, int count) {
  for (std::size_t i = 0; i < holdings.size(); ++i) {
    const auto here = std::min(holdings[i].gpus.size(), static_cast<std::size_t>(count));
    if (here == 0) {
      holdings.resize(i);
      break;
    }
    holdings[i].gpus.resize(here);
    count -= static_cast<int>(here);
  }
  return holdings;
}

// Those that matter most first.
std::vector<int> counts(int least, int most) {
  std::vector<int> list{least};
  if (most > least) list.push_back(most);
  for (int count = 2 * least; count < most; count *= 2) list.push_back(count);
  return list;
}

std::string types_of(const Replica& replica, const Site& site) {
  std::set<std::string> names;
  for (const GpuId& gpu : replica.gpus) {
    const int node = site.topology.find(gpu.node);
    const auto index = static_cast<std::size_t>(gpu.index);
    if (node < 0 || index >= site.topology.gpu_types(node).size()) continue;
    names.insert(site.hardware.types[static_cast<std::size_t>(site.topology.gpu_types(node)[index])].name);
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : "+") + name;
  return all;
}

// "a x2 b": equal neighbours once.
std::string folded(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (std::size_t i = 0; i < words.size();) {
    std::size_t end = i;
    while (end < words.size() && words[end] == words[i]) ++end;
    text += (text.empty() ? "" : between) + words[i] + (end - i > 1 ? " x" + std::to_string(end - i) : "");
    i = end;
  }
  return text;
}

}  // namespace

std::vector<StageToProfile> distinct_stages(const Plan& plan, std::size_t most) {
  const int last = static_cast<int>(plan.stages.size()) - 1;
  std::vector<int> order{0};
  if (last > 0) order.push_back(last);
  for (int stage = 1; stage < last; ++stage) order.push_back(stage);
  std::vector<std::set<int>> edges(plan.stages.size());  // of the model, that a stage holds
  const auto chunks = plan.model_chunks();
  if (!chunks.empty()) {
    edges[static_cast<std::size_t>(chunks.front().stage)].insert(0);
    edges[static_cast<std::size_t>(chunks.back().stage)].insert(1);
  }
  std::set<std::tuple<std::set<int>, int, int>> seen;
  std::vector<StageToProfile> chosen;
  for (const int index : order) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(index)];
    const auto largest = std::max_element(stage.replicas.begin(), stage.replicas.end(),
                                          [](const Replica& a, const Replica& b) { return a.share < b.share; });
    if (largest == stage.replicas.end() || chosen.size() >= most) continue;
    if (seen.emplace(edges[static_cast<std::size_t>(index)], stage.tp, largest->share).second)
      chosen.push_back({index, static_cast<int>(largest - stage.replicas.begin())});
  }
  return chosen;
}

std::vector<PlanToProfile> plans_to_profile(const ElasticJob& job, const Site& site,
                                            const JobCoefficients& coefficients, const std::string& type,
                                            std::size_t most_stages) {
  const int index = site.hardware.type_index(type);
  const int most = std::max(job.max_gpus, 1);
  const auto all = index < 0 ? std::vector<Holding>() : gpus_of_type(job, site, index, most);
  if (all.empty()) throw Error("profiling: there are no GPUs of type " + type);
  const int there = count_of(all);
  std::vector<PlanToProfile> plans;
  std::size_t left = most_stages;
  for (const int count : counts(std::min(std::max(job.min_gpus, 1), there), there)) {
    if (left == 0) break;
    ElasticJob one = job;
    one.plan.reset();
    one.parallel.first.reset();
    one.extensions.clear();
    one.anchor = first_of(all, count);
    one.max_gpus = count;
    one.min_gpus = one.floor_gpus = std::min(job.min_gpus, count);
    try {
      PlanToProfile found{first_plan(one, site, coefficients, RankOrder::planned).plan, {}};
      const bool known =
          std::any_of(plans.begin(), plans.end(), [&](const PlanToProfile& other) { return other.plan == found.plan; });
      if (known) continue;
      found.stages = distinct_stages(found.plan, left);
      left -= found.stages.size();
      plans.push_back(std::move(found));
    } catch (const Error&) {
      // no plan on so many GPUs
    }
  }
  return plans;
}

std::string plan_form(const Plan& plan, const Site& site) {
  std::vector<std::string> stages;
  for (const Stage& stage : plan.stages) {
    std::vector<std::string> replicas;
    for (const Replica& replica : stage.replicas)
      replicas.push_back(std::to_string(replica.share) + "@" + types_of(replica, site));
    stages.push_back(std::to_string(stage.layers) + " layers tp" + std::to_string(stage.tp) + " " +
                     folded(replicas, " "));
  }
  std::string text = std::to_string(plan.micro_batches) + " micro-batches | " + folded(stages, " | ");
  if (!plan.schedule.empty()) text = plan.schedule + " " + text;
  for (const Chunk& chunk : plan.chunks)
    text += (&chunk == plan.chunks.data() ? " | chunks " : "+") + std::to_string(chunk.layers) + "@" +
            std::to_string(chunk.stage);
  if (text.size() <= kLongestForm) return text;
  const std::string sum = std::to_string(std::hash<std::string>()(text));
  return text.substr(0, kLongestForm - sum.size() - 1) + "#" + sum;
}

}  // namespace espalier
