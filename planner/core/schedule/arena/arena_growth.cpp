#include "planner/core/schedule/arena/arena_growth.hpp"

#include <algorithm>
#include <cstdio>

#include "planner/core/grid/pruned_search.hpp"
#include "planner/core/schedule/acquire.hpp"
#include "planner/core/schedule/arena/buddies.hpp"
#include "planner/core/schedule/describe_sketch.hpp"
#include "planner/core/schedule/growing.hpp"
#include "planner/core/schedule/idle_gpus.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/payoff.hpp"
#include "planner/core/schedule/shrinking.hpp"

namespace espalier {
namespace {

constexpr double kMostPlans = 2000;  // of one pruned search, which bounds a decision's latency

std::vector<NodeGpus> joined(std::vector<NodeGpus> held, const std::vector<NodeGpus>& more) {
  for (const NodeGpus& one : more) {
    const auto at = std::lower_bound(held.begin(), held.end(), one.node,
                                     [](const NodeGpus& a, std::int32_t node) { return a.node < node; });
    auto& gpus = (at != held.end() && at->node == one.node ? at : held.insert(at, NodeGpus{one.node, {}}))->gpus;
    gpus.insert(gpus.end(), one.gpus.begin(), one.gpus.end());
    std::sort(gpus.begin(), gpus.end());
  }
  return held;
}

// Rank 0 stays on the anchor's first node, and stages take the pieces in their order.
std::vector<Piece> lead_first(std::vector<Piece> pieces, int lead) {
  std::stable_partition(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.node == lead; });
  return pieces;
}

}  // namespace

std::vector<NodeGpus> ArenaGrowth::taken(const ArenaMember& member, int count,
                                         const std::vector<Supply>& supplies) const {
  const Problem& problem = member.player.virtual_job->problem();
  const int type = pools_[static_cast<std::size_t>(member.pool)].type;
  auto idle = IdleGpus(supplies, site_, input_.closed).for_job(member.job(), problem.bounds);
  for (NodeGpus& one : idle) {
    const auto& types = site_.topology.gpu_types(one.node);
    std::erase_if(one.gpus, [&](std::int16_t gpu) { return types[static_cast<std::size_t>(gpu)] != type; });
  }
  std::erase_if(idle, [](const NodeGpus& one) { return one.gpus.empty(); });
  const auto& held = member.player.virtual_job->held();
  const auto nearest = affinity_order(problem.hardware, problem.topology, held, idle);
  return pick_buddies(idle, nearest, held, count);
}

// §3.6. A job whose limits leave no proxy plan on these GPUs gets the planner's own search.
std::optional<PlanSketch> ArenaGrowth::plan_on(ArenaMember& member, const std::vector<Piece>& pieces, int gpus) const {
  Evaluator& evaluator = member.player.virtual_job->evaluator();
  const GpuPool& pool = pools_[static_cast<std::size_t>(member.pool)];
  const auto order = lead_first(pieces, evaluator.problem().bounds.lead_node);
  std::optional<PlanSketch> best;
  if (const auto proxy = fastest_on(evaluator, member.book->proxies(pool, input_.cluster, gpus), order)) {
    best = proxy->solution.sketch;
    auto found = pruned_search(evaluator, order, *proxy, kMostPlans).best.sketch;
    if (evaluator.exact_sketch(found) < evaluator.exact_sketch(*best)) best = std::move(found);
    return best;
  }
  auto found = best_plan(evaluator, pieces, std::span(&member.player.virtual_job->present().sketch, 1), kPolishEffort);
  if (found && found->sketch.gpus() == gpus) best = std::move(found->sketch);
  return best;
}

std::optional<Decision> ArenaGrowth::to(ArenaMember& member, int gpus, std::vector<Supply> supplies,
                                        std::string& why) const {
  VirtualJob& job = *member.player.virtual_job;
  const auto refuse = [&](const char* what) {
    why = "to " + std::to_string(gpus) + " GPUs: " + what;
    return std::nullopt;
  };
  const auto more = taken(member, gpus - member.held, supplies);
  if (more.empty()) return refuse("too few idle ones of its type that it may have");
  const auto available = joined(job.held(), more);
  const auto sketch = plan_on(member, pieces_of(available, job.site()), gpus);
  if (!sketch) return refuse("no valid plan uses all of them");
  auto plan = materialize(job.problem(), *sketch, member.job(), available);
  if (!plan) return refuse("no valid plan uses all of them");
  const Payoff payoff(options_, input_);
  const int added = plan->gpu_count() - member.player.first_gpus;
  if (!payoff.pays_as_placed(member.player, *sketch, *plan, added))
    return refuse("the change would not win what it costs");
  if (!payoff.holds_as_placed(member.player, *sketch, *plan, added)) {
    why = "to " + std::to_string(gpus) + " GPUs: the gain does not hold " + doubt_text(member.player, *sketch) +
          "; it waits until more is measured";
    return std::nullopt;
  }
  Decision d = decision_for(input_, member.job(), DecisionKind::grow);
  const int extra = acquire_for(member.job(), *plan, supplies, d.acquire);
  if (extra == 0) return refuse("the plan uses no GPU that it does not have");
  const double exact = job.evaluator().exact_sketch(*sketch), before = member.job().step_seconds;
  d.predicted_step_seconds = before * exact / member.player.first_exact;
  const double samples = job.problem().job.global_batch;
  char text[200];
  std::snprintf(
      text, sizeof text,
      "%d idle GPUs on %zu node(s): scaled from %d to %d %s GPUs, from %.3g to a predicted %.3g samples/s", extra,
      d.acquire.size(), member.held, gpus,
      site_.hardware.types[static_cast<std::size_t>(pools_[static_cast<std::size_t>(member.pool)].type)].name.c_str(),
      samples / before, samples / d.predicted_step_seconds);
  d.reason = text;
  add_unused(member.job(), *plan, d.release);
  if (!d.release.empty()) d.kind = DecisionKind::migrate;
  d.candidates.push_back({describe_sketch(*sketch, job.site().topology),
                          sketch->gpus() - member.player.first_gpus,
                          d.predicted_step_seconds,
                          member.player.first_exact / exact,
                          {}});
  d.plan = std::move(*plan);
  return d;
}

}  // namespace espalier
