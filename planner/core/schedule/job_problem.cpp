#include "planner/core/schedule/job_problem.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/own_lists.hpp"

namespace espalier {
namespace {

void add(std::vector<Piece>& pieces, int node, int type, int gpus) {
  const auto at = std::lower_bound(pieces.begin(), pieces.end(), std::tuple(node, type),
                                   [](const Piece& p, auto key) { return std::tuple<int, int>(p.node, p.type) < key; });
  if (at != pieces.end() && at->node == node && at->type == type) at->gpus = static_cast<std::int16_t>(at->gpus + gpus);
  else
    pieces.insert(at,
                  {static_cast<std::int32_t>(node), static_cast<std::int16_t>(type), static_cast<std::int16_t>(gpus)});
}

bool known(const Site& site, int node, int gpu) {
  return node >= 0 && gpu >= 0 && static_cast<std::size_t>(gpu) < site.topology.gpu_types(node).size();
}

int type_of(const Site& site, int node, int gpu) {
  return site.topology.gpu_types(node)[static_cast<std::size_t>(gpu)];
}

}  // namespace

PlanBounds bounds_of(const ElasticJob& job, const Site& site, bool data_parallel_only) {
  PlanBounds bounds;
  bounds.min_gpus = std::max(1, job.floor_gpus);
  bounds.max_gpus = job.max_gpus;
  // Each replica needs a sample.
  if (espalier::data_parallel_only(job))
    bounds.max_gpus = static_cast<int>(std::min(
        std::int64_t{bounds.max_gpus}, std::int64_t{std::max(1, job.model.global_batch)} * largest_unit(job.parallel)));
  bounds.fixed_pp = job.parallel.pp;
  bounds.fixed_dp = job.parallel.dp;
  bounds.fixed_tp = job.parallel.tp;
  bounds.fixed_micro_batches = job.parallel.micro_batches;
  if (!job.anchor.empty()) {
    const Holding& first = job.anchor.front();
    bounds.lead_node = site.topology.find(first.node, first.gpus.empty() ? -1 : first.gpus.front());
  }
  if (data_parallel_only && job.plan && !job.plan->stages.empty()) {
    bounds.fixed_pp = static_cast<int>(job.plan->stages.size());
    bounds.fixed_tp = job.plan->stages.front().tp;
  }
  // A job that runs already keeps its degree, whatever its launcher says of the user's choice.
  if (job.accuracy == Accuracy::bitwise)
    bounds.fixed_tp =
        job.plan && !job.plan->stages.empty() ? job.plan->stages.front().tp : std::max(1, job.parallel.tp);
  return bounds;
}

namespace {

std::string reported_schedule(const ElasticJob& job) {
  if (!job.model.setting) return {};
  const std::string& text = job.model.setting->schedule;
  return text.substr(0, text.find(','));
}

}  // namespace

std::shared_ptr<const OwnLists> told_lists(const ElasticJob& job) {
  if (job.parallel.lists.empty()) return nullptr;
  try {
    return OwnLists::of(job.parallel.lists);
  } catch (const Error&) {
    return nullptr;  // a planner refuses such a report (report_check.hpp)
  }
}

bool chooses_schedule(const ElasticJob& job) { return reported_schedule(job) == kAutomaticSchedule; }

std::span<const PipelineForm> forms_of(const ElasticJob& job) {
  return forms_of(reported_schedule(job), job.parallel.chunks, job.parallel.v_shaped);
}

Plan in_its_form(Plan plan, PipelineForm chosen, const ElasticJob& job) {
  if (chooses_schedule(job)) return with_form(std::move(plan), chosen);
  const auto forms = forms_of(job);
  if (forms.empty()) return plan;
  Plan made = with_form(plan, forms.front());
  // A program that does not tell its schedule's name wants none.
  if (reported_schedule(job).empty()) made.schedule = std::move(plan.schedule);
  return made;
}

JobCoefficients as_the_job_allows(JobCoefficients coefficients, const ElasticJob& job) {
  coefficients.own_lists = told_lists(job);
  const auto& allowed = job.parallel.tp_degrees;
  if (allowed.empty()) return coefficients;
  std::vector<int> degrees;
  for (const int degree : coefficients.tp_degrees)
    if (std::find(allowed.begin(), allowed.end(), degree) != allowed.end()) degrees.push_back(degree);
  if (degrees.empty()) degrees.push_back(coefficients.tp_degrees.front());
  coefficients.tp_degrees = std::move(degrees);
  return coefficients;
}

std::optional<PlanSketch> sketch_of(const Plan& plan, const Site& site) {
  PlanSketch sketch;
  sketch.micro_batches = plan.micro_batches;
  sketch.form = form_of(plan);
  for (const Stage& stage : plan.stages) {
    StageSketch& next = sketch.stages.emplace_back();
    next.tp = stage.tp;
    next.layers = stage.layers;
    for (const Replica& replica : stage.replicas) {
      if (replica.gpus.empty()) return std::nullopt;
      const GpuId& first = replica.gpus.front();
      const int node = site.topology.find(first.node, first.index);
      for (const GpuId& gpu : replica.gpus) {
        if (!known(site, node, gpu.index)) return std::nullopt;
        add(next.pieces, node, type_of(site, node, gpu.index), 1);
      }
    }
  }
  return sketch;
}

std::vector<HeldGpus> held_by(const ElasticJob& job, const Site& site) {
  std::vector<HeldGpus> result;
  const auto take = [&](const Holding& holding, JobId extension) {
    const std::size_t first = result.size();
    for (const int gpu : holding.gpus) {
      const int node = site.topology.find(holding.node, gpu);
      if (!known(site, node, gpu)) continue;
      auto at = std::find_if(result.begin() + static_cast<std::ptrdiff_t>(first), result.end(),
                             [&](const HeldGpus& held) { return held.at.node == node; });
      if (at == result.end()) at = result.insert(at, {extension, {node, {}}});
      at->at.gpus.push_back(static_cast<std::int16_t>(gpu));
    }
  };
  for (const Holding& holding : job.anchor) take(holding, 0);
  for (const Holding& holding : job.extensions) take(holding, holding.job);
  return result;
}

std::vector<NodeGpus> held_gpus(std::span<const HeldGpus> holdings, const std::vector<JobId>& without) {
  std::vector<NodeGpus> held;
  for (const HeldGpus& one : holdings) {
    if (one.extension != 0 && std::binary_search(without.begin(), without.end(), one.extension)) continue;
    const NodeGpus& at = one.at;
    const auto same = std::find_if(held.begin(), held.end(), [&](const NodeGpus& n) { return n.node == at.node; });
    if (same == held.end()) held.push_back(at);
    else same->gpus.insert(same->gpus.end(), at.gpus.begin(), at.gpus.end());
  }
  std::sort(held.begin(), held.end(), [](const NodeGpus& a, const NodeGpus& b) { return a.node < b.node; });
  for (NodeGpus& node : held) std::sort(node.gpus.begin(), node.gpus.end());
  return held;
}

std::vector<Piece> pieces_of(const std::vector<NodeGpus>& gpus, const Site& site) {
  std::vector<Piece> pieces;
  for (const NodeGpus& node : gpus) {
    int type = -1, count = 0;  // of the previous GPUs; a node's GPUs are mostly of one type
    for (const int gpu : node.gpus) {
      const int here = type_of(site, node.node, gpu);
      if (here != type && count > 0) add(pieces, node.node, type, std::exchange(count, 0));
      type = here;
      ++count;
    }
    if (count > 0) add(pieces, node.node, type, count);
  }
  return pieces;
}

}  // namespace espalier
