#include "planner/core/schedule/job_site.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace espalier {
namespace {

struct Held {
  int gpu = 0;
  int island = 0;  // equal for GPUs that reach each other
  int server = 0;  // equal for GPUs of one Slurm job
};

// By node of the site: the GPUs that the job holds there, by index.
using HeldByNode = std::map<int, std::vector<Held>>;

HeldByNode held_islands(const Topology& topology, const ElasticJob& job) {
  std::map<std::string, std::pair<int, std::vector<int>>> servers;  // by islands_key: the node, and the GPUs
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings) {
      const int node = topology.find(held.node);
      if (node < 0) continue;
      auto& [of, gpus] = servers[islands_key(held.node, held.job)];
      of = node;
      for (const int gpu : held.gpus)
        if (topology.has(node, gpu)) gpus.push_back(gpu);
    }
  HeldByNode result;
  int next = 0, number_of_server = 0;
  for (auto& [key, server] : servers) {
    ++number_of_server;
    const int node = server.first;
    std::vector<int>& gpus = server.second;
    std::sort(gpus.begin(), gpus.end());
    gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
    const auto said = job.gpu_islands.find(key);
    // A rank that does not see all GPUs of its job cannot tell which is which.
    const bool told = said != job.gpu_islands.end() && said->second.size() == gpus.size();
    std::map<int, int> number;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const int island = number.try_emplace(told ? said->second[i] : 0, next).first->second;
      if (island == next) ++next;
      // A launcher may name a GPU twice: Slurm has given it to another of the training's jobs meanwhile.
      auto& held = result[node];
      if (std::none_of(held.begin(), held.end(), [&](const Held& one) { return one.gpu == gpus[i]; }))
        held.push_back({gpus[i], island, number_of_server});
    }
  }
  return result;
}

// A training that runs a TP group across GPUs of one Slurm job that do not reach each other will need such groups
// again, on any of that job's GPUs.
void join_server(int server, int island, std::vector<Held>& held) {
  std::set<int> joined;
  for (const Held& one : held)
    if (one.server == server) joined.insert(one.island);
  for (Held& one : held)
    if (joined.contains(one.island)) one.island = island;
}

void join_groups(const Topology& topology, const Plan& plan, HeldByNode& held) {
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas) {
      if (replica.gpus.size() < 2) continue;
      const auto on = held.find(topology.find(replica.gpus.front().node));
      if (on == held.end()) continue;
      int first = -1;
      for (const GpuId& gpu : replica.gpus) {
        const auto at =
            std::find_if(on->second.begin(), on->second.end(), [&](const Held& one) { return one.gpu == gpu.index; });
        if (at == on->second.end()) continue;
        if (first < 0) first = at->island;
        if (at->island == first) continue;
        const Held joined = *at;
        const bool of_one_server = std::any_of(on->second.begin(), on->second.end(), [&](const Held& one) {
          return one.island == first && one.server == joined.server;
        });
        if (of_one_server) join_server(joined.server, first, on->second);
        for (Held& one : on->second)
          if (one.island == joined.island) one.island = first;
      }
    }
}

struct Division {
  int node = 0;
  std::vector<int> gpus;
};

std::vector<Division> divisions(const Topology& topology, const ElasticJob& job) {
  HeldByNode held = held_islands(topology, job);
  if (job.plan) join_groups(topology, *job.plan, held);
  std::vector<Division> result;
  for (const auto& on_node : held) {
    const int node = on_node.first;
    const std::vector<Held>& gpus = on_node.second;
    const bool whole = gpus.size() >= topology.gpu_types(node).size();
    const bool one =
        std::all_of(gpus.begin(), gpus.end(), [&](const Held& gpu) { return gpu.island == gpus.front().island; });
    if (whole && one) continue;
    std::map<int, std::vector<int>> islands;
    for (const Held& gpu : gpus) islands[gpu.island].push_back(gpu.gpu);
    for (auto& [island, own] : islands) result.push_back({node, std::move(own)});
  }
  return result;
}

Site divided(const Site& site, const std::vector<Division>& parts) {
  Site result = site;
  for (const Division& part : parts) result.topology.add_island(part.node, part.gpus);
  return result;
}

}  // namespace

std::shared_ptr<const Site> site_for(std::shared_ptr<const Site> site, const ElasticJob& job) {
  if (site->hardware.jobs_reach || job.jobs_reach) return site;
  const auto parts = divisions(site->topology, job);
  return parts.empty() ? site : std::make_shared<const Site>(divided(*site, parts));
}

Site site_for(const Site& site, const ElasticJob& job) {
  return site.hardware.jobs_reach || job.jobs_reach ? site : divided(site, divisions(site.topology, job));
}

}  // namespace espalier
