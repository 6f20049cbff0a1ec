#include "planner/sim/policies/reallocation.hpp"

#include <algorithm>

#include "planner/core/schedule/materialize.hpp"
#include "planner/sim/policies/packing.hpp"

namespace espalier::sim {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::size_t index_of(const std::vector<const SimulatedJobState*>& jobs, JobId id) {
  const auto found = std::lower_bound(jobs.begin(), jobs.end(), id,
                                      [](const SimulatedJobState* job, JobId wanted) { return job->id < wanted; });
  return found != jobs.end() && (*found)->id == id ? static_cast<std::size_t>(found - jobs.begin()) : jobs.size();
}

std::vector<PackedNode> packed_nodes(const SimulatedView& view, const GpuPool& pool) {
  std::vector<PackedNode> nodes;
  for (const int n : pool.nodes) {
    const NodeView& node = view.input.cluster.nodes[at(n)];
    // GPUs whose owner this policy does not know are not its to give.
    const auto gpus = std::count_if(node.gpu_owner.begin(), node.gpu_owner.end(), [&](JobId owner) {
      return owner == 0 || index_of(view.jobs, owner) < view.jobs.size();
    });
    nodes.push_back(
        {static_cast<int>(gpus), view.input.site->topology.rack(view.input.site->topology.find(node.name))});
  }
  return nodes;
}

Spread spread_of(const HeldGpus& held) {
  Spread spread;
  for (std::size_t n = 0; n < held.on.size(); ++n)
    if (!held.on[n].empty()) spread.push_back({static_cast<int>(n), static_cast<int>(held.on[n].size())});
  return spread;
}

// GPUs of one job, by the pool's nodes.
using Indices = std::vector<std::vector<int>>;

// The job's own GPUs come first, then GPUs that others leave, ascending.
std::vector<Indices> choose_indices(const SimulatedView& view, const GpuPool& pool, const std::vector<HeldGpus>& held,
                                    const std::vector<Spread>& spreads, const std::vector<bool>& here) {
  std::vector<Indices> chosen(spreads.size());
  std::vector<std::vector<bool>> taken;
  for (const int n : pool.nodes) {
    const auto& owners = view.input.cluster.nodes[at(n)].gpu_owner;
    auto& node = taken.emplace_back(owners.size(), false);
    for (std::size_t gpu = 0; gpu < owners.size(); ++gpu)
      node[gpu] = owners[gpu] != 0 && index_of(view.jobs, owners[gpu]) == view.jobs.size();
  }
  for (std::size_t j = 0; j < spreads.size(); ++j) {
    chosen[j].resize(pool.nodes.size());
    if (!here[j]) continue;
    for (const NodeShare& share : spreads[j])
      for (const int gpu : held[j].on[at(share.node)]) {
        if (static_cast<int>(chosen[j][at(share.node)].size()) == share.gpus) break;
        chosen[j][at(share.node)].push_back(gpu);
        taken[at(share.node)][at(gpu)] = true;
      }
  }
  for (std::size_t j = 0; j < spreads.size(); ++j)
    for (const NodeShare& share : spreads[j]) {
      auto& gpus = chosen[j][at(share.node)];
      auto& node = taken[at(share.node)];
      for (std::size_t gpu = 0; gpu < node.size() && static_cast<int>(gpus.size()) < share.gpus; ++gpu)
        if (!node[gpu]) {
          node[gpu] = true;
          gpus.push_back(static_cast<int>(gpu));
        }
      std::sort(gpus.begin(), gpus.end());
    }
  return chosen;
}

std::optional<Plan> plan_on(const SimulatedView& view, const GpuPool& pool, const SimulatedJobState& job,
                            const Indices& indices, const MakeSketch& make_sketch) {
  const Site& site = *view.input.site;
  std::vector<NodeGpus> gpus;
  std::vector<Piece> pieces;
  for (std::size_t n = 0; n < indices.size(); ++n) {
    if (indices[n].empty()) continue;
    const int node = site.topology.find(view.input.cluster.nodes[at(pool.nodes[n])].name);
    gpus.push_back({node, {indices[n].begin(), indices[n].end()}});
    pieces.push_back({node, static_cast<std::int16_t>(pool.type), static_cast<std::int16_t>(indices[n].size())});
  }
  std::sort(gpus.begin(), gpus.end(), [](const NodeGpus& a, const NodeGpus& b) { return a.node < b.node; });
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.node < b.node; });
  const auto sketch = make_sketch(job, pieces);
  if (!sketch) return std::nullopt;
  ElasticJob seen;  // so that GPUs keep the layers that they have
  seen.accuracy = Accuracy::relaxed;
  seen.plan = job.plan;
  const PlanBounds bounds;
  return materialize({site.hardware, site.topology, *job.coefficients, bounds}, *sketch, seen, gpus);
}

}  // namespace

std::vector<HeldGpus> held_in_pools(const SimulatedView& view, const std::vector<GpuPool>& pools) {
  std::vector<HeldGpus> held(view.jobs.size());
  for (std::size_t p = 0; p < pools.size(); ++p)
    for (std::size_t n = 0; n < pools[p].nodes.size(); ++n) {
      const auto& owners = view.input.cluster.nodes[at(pools[p].nodes[n])].gpu_owner;
      for (std::size_t gpu = 0; gpu < owners.size(); ++gpu) {
        if (owners[gpu] == 0) continue;
        const std::size_t job = index_of(view.jobs, owners[gpu]);
        if (job == view.jobs.size()) continue;
        HeldGpus& own = held[job];
        if (own.pool < 0) own.pool = static_cast<int>(p), own.on.resize(pools[p].nodes.size());
        if (own.pool != static_cast<int>(p)) continue;
        own.on[n].push_back(static_cast<int>(gpu));
        ++own.gpus;
      }
    }
  return held;
}

std::vector<Act> reallocate(const SimulatedView& view, const std::vector<GpuPool>& pools,
                            const std::vector<HeldGpus>& held, const std::vector<Wanted>& wanted,
                            const MakeSketch& make_sketch) {
  std::vector<Act> acts;
  std::vector<bool> settled(view.jobs.size(), false);  // has its GPUs: by an act, or unchanged
  for (std::size_t p = 0; p < pools.size(); ++p) {
    std::vector<PackedJob> packed;
    std::vector<bool> here;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) {
      const bool fixed = view.jobs[j]->redeploying;
      here.push_back(held[j].pool == static_cast<int>(p));
      PackedJob& job = packed.emplace_back();
      if (here[j]) job.held = spread_of(held[j]);
      if (fixed) job.gpus = here[j] ? held[j].gpus : 0;
      else job.gpus = wanted[j].pool == static_cast<int>(p) ? wanted[j].gpus : 0;
      job.fixed = fixed && here[j];
    }
    const auto spreads = pack(packed_nodes(view, pools[p]), packed);
    const auto chosen = choose_indices(view, pools[p], held, spreads, here);
    for (std::size_t j = 0; j < view.jobs.size(); ++j) {
      if (spreads[j].empty()) continue;
      if (here[j] && chosen[j] == held[j].on) {
        settled[j] = true;
        continue;
      }
      auto plan = plan_on(view, pools[p], *view.jobs[j], chosen[j], make_sketch);
      if (!plan) continue;
      settled[j] = true;
      Act act;
      act.job = view.jobs[j]->id;
      act.plan = std::move(plan);
      act.reason = "from " + std::to_string(held[j].gpus) + " to " + std::to_string(wanted[j].gpus) + " GPUs";
      acts.push_back(std::move(act));
    }
  }
  for (std::size_t j = 0; j < view.jobs.size(); ++j)
    if (!settled[j] && held[j].pool >= 0 && !view.jobs[j]->redeploying) {
      Act act;
      act.job = view.jobs[j]->id;
      act.reason = "its GPUs serve others better";
      acts.push_back(std::move(act));
    }
  std::sort(acts.begin(), acts.end(), [](const Act& a, const Act& b) { return a.job < b.job; });
  return acts;
}

}  // namespace espalier::sim
