#include "planner/cli/plan_search.hpp"

#include <algorithm>
#include <map>

#include "planner/cli/plan_shortage.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/solver/best_plan.hpp"
#include "planner/core/solver/from_scratch.hpp"

namespace espalier::cli {
namespace {

// No GPUs are idle during this search, so it may take seconds and look at many plans.
constexpr long kScratchLabels = 200'000;

std::vector<NodeGpus> by_node(const std::vector<GpuAt>& order, int count) {
  std::map<std::int32_t, std::vector<std::int16_t>> nodes;
  for (int i = 0; i < count; ++i)
    nodes[order[static_cast<std::size_t>(i)].node].push_back(order[static_cast<std::size_t>(i)].gpu);
  std::vector<NodeGpus> result;
  for (auto& [node, gpus] : nodes) {
    std::sort(gpus.begin(), gpus.end());
    result.push_back({node, std::move(gpus)});
  }
  return result;
}

bool within(const PlanSketch& sketch, const std::vector<Piece>& available) {
  std::vector<Piece> used;
  for (const StageSketch& stage : sketch.stages) used = merge_pieces(used, stage.pieces);
  return std::all_of(used.begin(), used.end(), [&](const Piece& piece) {
    return std::any_of(available.begin(), available.end(), [&](const Piece& there) {
      return there.node == piece.node && there.type == piece.type && there.gpus >= piece.gpus;
    });
  });
}

bool on_measured(const Plan& plan, const Site& site, const std::vector<bool>& measured) {
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas)
      if (!measured[static_cast<std::size_t>(replica_class(site.topology, replica).type)]) return false;
  return true;
}

class Study {
 public:
  Study(const PlanJob& job, const Site& site, const PlanCoefficients& coefficients, const std::vector<GpuAt>& order,
        const std::optional<Plan>& present)
      : file_(job), site_(site), coefficients_(coefficients), order_(order) {
    job_.accuracy = job.accuracy;
    set_schedule(job_, job);
    job_.plan = present;
    if (!present) return;
    const GpuId first = present->ranks().front();
    job_.anchor = {{0, first.node, {first.index}}};
  }

  PlannedCount plan(int gpus) {
    PlannedCount result;
    result.gpus = gpus;
    const auto nodes = by_node(order_, gpus);
    const auto pieces = pieces_of(nodes, site_);
    const PlanBounds bounds = bounds_for(gpus);
    const Problem problem{site_.hardware, site_.topology, coefficients_.job, bounds, forms_of(job_)};
    // A search of all forms at once would compare them by its approximate times.
    for (std::size_t form = 0; form < std::max<std::size_t>(1, problem.forms.size()); ++form) {
      Problem one = problem;
      if (!one.forms.empty()) one.forms = problem.forms.subspan(form, 1);
      take_faster(result, one, pieces, nodes);
    }
    if (!result.plan) {
      result.why_not = shortage(problem, pieces, file_);
      return result;
    }
    keep_previous(result);
    job_.plan = previous_ = result.plan;
    return result;
  }

 private:
  PlanBounds bounds_for(int gpus) {
    job_.max_gpus = std::min(gpus, file_.max_gpus);
    PlanBounds bounds = bounds_of(job_, site_);
    bounds.min_gpus = file_.min_gpus;
    if (file_.shape.micro_batches > 0) bounds.fixed_micro_batches = file_.shape.micro_batches;
    if (!file_.gpu_types.empty()) {
      bounds.types.assign(site_.hardware.types.size(), false);
      for (const GpuAt& gpu : order_) bounds.types[static_cast<std::size_t>(gpu.type)] = true;
    }
    return bounds;
  }

  // Replaces `result` if the best plan that is found for `problem` has a shorter exact time.
  void take_faster(PlannedCount& result, const Problem& problem, const std::vector<Piece>& pieces,
                   const std::vector<NodeGpus>& nodes) const {
    const auto found = search(problem, pieces);
    if (!found) return;
    PlannedCount next = result;
    next.plan = materialize(problem, found->sketch, job_, nodes);
    ESPALIER_INVARIANT(next.plan.has_value());
    predict(next);
    if (!result.plan || next.prediction.exact_ms < result.prediction.exact_ms) result = std::move(next);
  }

  std::optional<Solution> search(const Problem& problem, const std::vector<Piece>& pieces) const {
    Evaluator evaluator(problem);
    std::vector<PlanSketch> starts;
    if (job_.plan)
      if (auto start = sketch_of(*job_.plan, site_); start && within(*start, pieces)) {
        if (problem.forms.size() == 1) start->form = problem.forms.front();
        starts.push_back(std::move(*start));
      }
    auto found = best_plan(evaluator, pieces, starts, {});
    const auto scratch =
        plan_from_scratch(evaluator, pieces, {kScratchLabels, nullptr}, found ? found->ms : kInfeasible);
    return scratch.best ? scratch.best : found;
  }

  void predict(PlannedCount& result) const {
    result.prediction = evaluate_plan(site_.hardware, site_.topology, coefficients_.job, *result.plan);
    result.measured = on_measured(*result.plan, site_, coefficients_.measured);
  }

  // The search compares printed times, but the exact time is predicted. By the exact time the
  // previous plan may be better.
  void keep_previous(PlannedCount& result) const {
    if (!previous_ || previous_->gpu_count() > result.gpus) return;
    PlannedCount before = result;
    before.plan = previous_;
    predict(before);
    if (before.prediction.feasible && before.prediction.exact_ms < result.prediction.exact_ms) result = before;
  }

  const PlanJob& file_;
  const Site& site_;
  const PlanCoefficients& coefficients_;
  const std::vector<GpuAt>& order_;
  ElasticJob job_;
  std::optional<Plan> previous_;
};

}  // namespace

std::vector<GpuAt> plan_gpus(const PlanJob& job, const Site& site) {
  for (const std::string& type : job.gpu_types)
    if (site.hardware.type_index(type) < 0)
      throw Error(job.path + ": gpu_types: the cluster has no GPU of type \"" + type + "\"");
  std::vector<NodeGpus> idle;
  for (int node = 0; node < site.topology.nodes(); ++node) {
    idle.push_back({node, {}});
    const auto& types = site.topology.gpu_types(node);
    for (std::size_t gpu = 0; gpu < types.size(); ++gpu) {
      const std::string& type = site.hardware.types[static_cast<std::size_t>(types[gpu])].name;
      if (job.gpu_types.empty() || std::count(job.gpu_types.begin(), job.gpu_types.end(), type) > 0)
        idle.back().gpus.push_back(static_cast<std::int16_t>(gpu));
    }
    if (idle.back().gpus.empty()) idle.pop_back();
  }
  ESPALIER_INVARIANT(!idle.empty());
  const NodeGpus first{idle.front().node, {idle.front().gpus.front()}};
  idle.front().gpus.erase(idle.front().gpus.begin());
  auto order = affinity_order(site.hardware, site.topology, std::span(&first, 1), idle);
  order.insert(order.begin(), {first.node, first.gpus.front(),
                               site.topology.gpu_types(first.node)[static_cast<std::size_t>(first.gpus.front())]});
  return order;
}

std::optional<Plan> present_plan(const PlanJob& job, const Site& site, const std::vector<GpuAt>& order) {
  if (!job.present) return std::nullopt;
  std::vector<GpuId> gpus;
  for (const GpuAt& gpu : order) gpus.push_back({site.topology.name(gpu.node), gpu.gpu});
  try {
    const Plan plan = uniform_plan(job.present->pp, job.present->dp, job.shape.layers, job.shape.global_batch,
                                   job.present->micro_batches, gpus, job.present->tp);
    // "auto" names no schedule of the step that was measured: 1F1B.
    ElasticJob measured;
    set_schedule(measured, job);
    return job.schedule == kAutomaticSchedule ? plan : in_its_form(plan, {}, measured);
  } catch (const Error& error) {
    throw Error(job.path + ": present: " + error.what());
  }
}

std::vector<PlannedCount> plan_counts(const PlanJob& job, const Site& site, const PlanCoefficients& coefficients,
                                      const std::vector<GpuAt>& order, const std::optional<Plan>& present,
                                      const std::vector<int>& counts) {
  for (const int gpus : counts) {
    const std::string what = "--gpus: " + std::to_string(gpus) + ": ";
    if (static_cast<std::size_t>(gpus) > order.size())
      throw Error(what + "the cluster has " + counted(static_cast<std::int64_t>(order.size()), "GPU") +
                  " that the job may use");
    if (gpus < job.min_gpus || gpus > job.max_gpus)
      throw Error(what + "the job takes " + std::to_string(job.min_gpus) + " to " + counted(job.max_gpus, "GPU") +
                  "; see min_gpus and max_gpus in " + job.path);
  }
  Study study(job, site, coefficients, order, present);
  std::vector<PlannedCount> results;
  for (const int gpus : counts) results.push_back(study.plan(gpus));
  return results;
}

}  // namespace espalier::cli
