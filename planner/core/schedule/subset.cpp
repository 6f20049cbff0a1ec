// The reverse of growing, for callers without a scheduler: a launcher whose GPUs Slurm takes.
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/solver/shrink.hpp"

#include <algorithm>
#include <map>

namespace espalier {
namespace {

// The nodes of the plan, the anchor and `gpus`, with the highest GPU index seen on each. nullopt:
// an index is out of range.
std::optional<ClusterView> view_of(const ElasticJob& job, const std::vector<GpuId>& gpus) {
  std::map<std::string, int> most;
  bool possible = true;
  const auto see = [&](const GpuId& gpu) {
    if (gpu.index < 0 || gpu.index >= kMostGpusOfNode) possible = false;
    else most[gpu.node] = std::max(most[gpu.node], gpu.index + 1);
  };
  for (const GpuId& gpu : job.plan->ranks()) see(gpu);
  for (const GpuId& gpu : gpus) see(gpu);
  for (const Holding& held : job.anchor)
    for (const int gpu : held.gpus) see({held.node, gpu});
  if (!possible) return std::nullopt;
  ClusterView view;
  for (const auto& [name, count] : most) {
    NodeView node;
    node.name = name;
    node.gpu_owner.assign(static_cast<std::size_t>(count), 0);
    view.nodes.push_back(std::move(node));
  }
  return view;
}

std::vector<NodeGpus> by_node(const std::vector<GpuId>& gpus, const Site& site) {
  std::map<int, NodeGpus> nodes;
  for (const GpuId& gpu : gpus) {
    const int node = site.topology.find(gpu.node, gpu.index);
    nodes[node].node = node;
    nodes[node].gpus.push_back(static_cast<std::int16_t>(gpu.index));
  }
  std::vector<NodeGpus> result;
  for (auto& [node, list] : nodes) {
    std::sort(list.gpus.begin(), list.gpus.end());
    list.gpus.erase(std::unique(list.gpus.begin(), list.gpus.end()), list.gpus.end());
    result.push_back(std::move(list));
  }
  return result;
}

// Where rank 0 stays: on the island of the anchor's first GPU, or if none of its GPUs is left, on another of the node.
int lead_among(const std::vector<NodeGpus>& kept, int lead, const Topology& topology) {
  int other = lead;
  for (const NodeGpus& one : kept) {
    if (one.node == lead) return lead;
    if (lead >= 0 && topology.whole(one.node) == topology.whole(lead)) other = one.node;
  }
  return other;
}

std::optional<Plan> solve(const ElasticJob& job, const Site& site, const std::vector<NodeGpus>& kept,
                          JobCoefficients coefficients) {
  PlanBounds bounds = bounds_of(job, site);
  bounds.lead_node = lead_among(kept, bounds.lead_node, site.topology);
  coefficients = as_the_job_allows(std::move(coefficients), job);
  const Problem problem{site.hardware, site.topology, coefficients, bounds, forms_of(job)};
  auto present = sketch_of(*job.plan, site);
  if (!present) return std::nullopt;
  if (problem.forms.size() == 1) present->form = problem.forms.front();
  fit_memory_to_running_plan(problem, *present, coefficients);
  Evaluator evaluator(problem);
  const auto plan = shrink_plan(evaluator, *present, pieces_of(kept, site), {4, 60, 0});
  return plan ? materialize(problem, plan->sketch, job, kept) : std::nullopt;
}

// The user's pp, dp and allowed TP degrees give way where no plan on fewer GPUs can keep them.
std::optional<Plan> solve_for(ElasticJob job, const Site& site, const std::vector<NodeGpus>& kept,
                              const JobCoefficients& coefficients) {
  if (auto plan = solve(job, site, kept, coefficients)) return plan;
  if (job.parallel.pp == 0 && job.parallel.dp == 0 && job.parallel.tp_degrees.empty()) return std::nullopt;
  job.parallel.pp = job.parallel.dp = 0;
  job.parallel.tp_degrees.clear();
  return solve(job, site, kept, coefficients);
}

bool has_all(const Site& site, const ElasticJob& job, const std::vector<GpuId>& gpus) {
  const auto has = [&](const GpuId& gpu) {
    const int node = site.topology.find(gpu.node);
    return node >= 0 && gpu.index >= 0 && static_cast<std::size_t>(gpu.index) < site.topology.gpu_types(node).size();
  };
  const auto present = job.plan->ranks();
  return std::all_of(gpus.begin(), gpus.end(), has) && std::all_of(present.begin(), present.end(), has);
}

}  // namespace

std::optional<Plan> plan_on_subset(const ElasticJob& job, const std::vector<GpuId>& gpus, const PlanningBasis* known) {
  if (!job.plan || job.plan->stages.empty() || job.plan->stages.front().replicas.empty()) return std::nullopt;
  if (job.model.layers <= 0 || gpus.empty()) return std::nullopt;
  const auto view = view_of(job, gpus);
  if (!view) return std::nullopt;
  if (known != nullptr && has_all(known->site, job, gpus)) {
    const Site site = site_for(known->site, job);
    auto plan = solve_for(job, site, by_node(gpus, site), known->coefficients.value_or(assumed_for(job, site)));
    if (plan) return plan;
  }
  // Without knowledge of the GPUs' memory, or if by estimate nothing fits, no plan is refused for
  // lack of memory: a plan that may be too large is better than the end of the job.
  Site neutral = *neutral_site(*view);
  for (GpuType& type : neutral.hardware.types) type.memory_bytes = 1e18;
  const Site site = site_for(neutral, job);
  if (auto plan = solve_for(job, site, by_node(gpus, site), assumed_for(job, site))) return plan;
  // A TP degree that the job must keep may fit on no island: a slow group is better than the end of the job, too.
  return solve_for(job, neutral, by_node(gpus, neutral), assumed_for(job, neutral));
}

}  // namespace espalier
