#include "planner/core/schedule/flextrain/predicted_scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "planner/core/cluster.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/schedule/flextrain/scale_table.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/virtual_job.hpp"

namespace espalier {
namespace {

std::string text_of(const char* format, double a, double b) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}

// The first GPUs of the cluster that the job does not hold, nearest first.
std::vector<NodeGpus> all_others(const Site& site, const std::vector<NodeGpus>& held) {
  std::vector<NodeGpus> others;
  for (int node = 0; node < site.topology.nodes(); ++node) {
    const auto own = std::find_if(held.begin(), held.end(), [&](const NodeGpus& n) { return n.node == node; });
    NodeGpus rest{node, {}};
    for (std::size_t gpu = 0; gpu < site.topology.gpu_types(node).size(); ++gpu)
      if (site.topology.has(node, static_cast<int>(gpu)) &&
          (own == held.end() ||
           std::find(own->gpus.begin(), own->gpus.end(), static_cast<std::int16_t>(gpu)) == own->gpus.end()))
        rest.gpus.push_back(static_cast<std::int16_t>(gpu));
    if (!rest.gpus.empty()) others.push_back(std::move(rest));
  }
  return others;
}

class Predictor {
 public:
  Predictor(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients, const ScaleOptions& options)
      : job_(job),
        site_(site),
        options_(options),
        virtual_(VirtualJob::make(job, std::shared_ptr<const Site>(std::shared_ptr<void>(), &site), coefficients, false,
                                  nullptr)) {
    if (!virtual_) throw Error("job " + std::to_string(job.id) + ": its plan cannot be scored on this cluster");
    const PlanSketch& present = virtual_->present().sketch;
    tp_ = present.stages.front().tp;
    replicas_ = present.stages.front().gpus() / tp_;
    held_ = virtual_->held();
    most_ = std::min(job.max_gpus, virtual_->problem().bounds.max_gpus);
    const int more = std::max(0, most_ - present.gpus());
    const Site& own = virtual_->site();
    if (more > 0)
      units_ =
          cut_units(affinity_order(own.hardware, own.topology, held_, all_others(own, held_), more), kMostGpusOfNode);
    std::vector<Piece> pieces = pieces_of(held_, own);
    // The anchor's first node comes first: rank 0 stays there.
    const int lead = virtual_->problem().bounds.lead_node;
    std::stable_partition(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.node == lead; });
    for (const AffinityUnit& unit : units_)
      pieces.push_back({unit.node, unit.type, static_cast<std::int16_t>(unit.gpus.size())});
    groups_ = tp_groups(pieces, tp_);
  }

  std::vector<ScaleEntry> entries() {
    std::vector<ScaleEntry> list;
    list.push_back(entry_of(*job_.plan, job_.plan->gpu_count()));
    if (list.front().plan.empty()) throw Error("job " + std::to_string(job_.id) + ": " + list.front().dropped);
    base_ms_ = base_of(list.front());
    list.front().profiled = list.front().modelled = 1;
    for (const int gpus : counts(list.front().gpus)) list.push_back(best_on(gpus));
    filter_entries(list, options_);
    return list;
  }

 private:
  std::vector<int> counts(int present) const {
    const int unit = tp_ * (options_.elasticity == Elasticity::pipeline ? replicas_ : 1);
    std::vector<int> all;
    for (int gpus = present + unit; gpus <= std::min(most_, static_cast<int>(groups_.size()) * tp_); gpus += unit)
      all.push_back(gpus);
    const auto most = static_cast<std::size_t>(std::max(1, options_.most_entries - 1));
    if (all.size() <= most) return all;
    std::vector<int> some;  // evenly, the last among them
    for (std::size_t i = 1; i <= most; ++i) some.push_back(all[all.size() * i / most - 1]);
    return some;
  }

  double base_of(const ScaleEntry& entry) const { return entry.step_seconds * 1000; }

  double passes_of(const Plan& plan) const {
    const JobCoefficients& job = virtual_->problem().job;
    const PipelineForm form = form_of(plan);
    const auto last = static_cast<std::size_t>(form.last_stage(static_cast<int>(plan.stages.size())));
    double longest = 0;
    std::size_t replicas = 0;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      longest = std::max(longest, plan.stages[s].layers + (s == 0 ? job.first.compute_layers : 0) +
                                      (s == last ? job.last.compute_layers : 0));
      replicas = std::max(replicas, plan.stages[s].replicas.size());
    }
    // A replica computes its share of each micro-batch (eq. 6 gives it fewer micro-batches instead).
    return modelled_passes(longest, static_cast<int>(plan.stages.size()), form.chunks, plan.micro_batches) *
           plan.micro_batch() / static_cast<double>(replicas);
  }

  ScaleEntry entry_of(const Plan& plan, int gpus) const {
    ScaleEntry entry;
    entry.gpus = gpus;
    const Problem& problem = virtual_->problem();
    const auto predicted = evaluate_plan(problem.hardware, problem.topology, problem.job, plan);
    for (const StagePrediction& stage : predicted.stages)
      if (entry.limit_bytes <= 0 || stage.memory.peak * entry.limit_bytes > entry.peak_bytes * stage.capacity)
        entry.peak_bytes = stage.memory.peak, entry.limit_bytes = stage.capacity;
    entry.dropped = predicted.why_not;
    if (predicted.stages.empty()) return entry;
    entry.plan = describe(plan);
    const PipelineForm form = form_of(plan);
    const auto& own = problem.job.own_lists;
    entry.schedule = own && own->run_on(plan) ? "own-lists" : form.schedule();
    entry.chunks = form.chunks;
    entry.step_seconds = predicted.exact_ms / 1000;
    if (base_ms_ > 0) {
      entry.profiled = base_ms_ / predicted.exact_ms;
      entry.modelled = passes_of(*job_.plan) / passes_of(plan);
    }
    return entry;
  }

  std::optional<Plan> plan_on(Evaluator& evaluator, int gpus) const {
    const auto row =
        fastest_row(evaluator, options_.elasticity, virtual_->present().sketch, groups_, gpus / tp_, gpus / tp_);
    if (!row) return std::nullopt;
    std::vector<NodeGpus> available = held_;
    for (const AffinityUnit& unit : units_) {
      const auto at = std::lower_bound(available.begin(), available.end(), unit.node,
                                       [](const NodeGpus& one, std::int32_t node) { return one.node < node; });
      auto& list =
          (at != available.end() && at->node == unit.node ? at : available.insert(at, NodeGpus{unit.node, {}}))->gpus;
      list.insert(list.end(), unit.gpus.begin(), unit.gpus.end());
      std::sort(list.begin(), list.end());
    }
    return materialize(evaluator.problem(), row->sketch, job_, available);
  }

  ScaleEntry best_on(int gpus) {
    if (const auto plan = plan_on(virtual_->evaluator(), gpus)) return entry_of(*plan, gpus);
    // Memory or the numbers: with enough memory, would there be a plan?
    const Problem& problem = virtual_->problem();
    Hardware roomy = problem.hardware;
    roomy.memory_share = 1e9;
    const Problem without{roomy, problem.topology, problem.job, problem.bounds, problem.forms};
    Evaluator evaluator(without);
    if (const auto plan = plan_on(evaluator, gpus)) {
      ScaleEntry entry = entry_of(*plan, gpus);
      entry.profiled = entry.modelled = entry.step_seconds = 0;
      entry.plan.clear();
      return entry;
    }
    ScaleEntry none;
    none.gpus = gpus;
    none.dropped = "no plan of so many GPUs divides the layers, the global batch and the tensor-parallel degree";
    return none;
  }

  const ElasticJob& job_;
  const Site& site_;
  const ScaleOptions& options_;
  std::unique_ptr<VirtualJob> virtual_;
  int tp_ = 1, replicas_ = 1, most_ = 0;
  double base_ms_ = 0;
  std::vector<NodeGpus> held_;
  std::vector<AffinityUnit> units_;
  std::vector<Piece> groups_;
};

}  // namespace

double modelled_passes(double longest_stage, int stages, int chunks, int micro_batches) {
  const double m = micro_batches, p = stages, v = chunks;
  // Eq. 5 in passes of one chunk. Its v is the ceiling of L / p: the longest stage sets the pace.
  const double passes = m >= p ? m * v + p - 1 : p * v + m - 1;
  return passes * longest_stage / v;
}

void filter_entries(std::vector<ScaleEntry>& entries, const ScaleOptions& options) {
  const ScaleEntry* before = nullptr;  // whatever became of it
  double kept = 0;
  for (ScaleEntry& entry : entries) {
    if (!entry.dropped.empty()) continue;
    const double less = std::min(entry.profiled, entry.modelled), more = std::max(entry.profiled, entry.modelled);
    if (before != nullptr) {
      const bool up = entry.profiled >= before->profiled, up_too = entry.modelled >= before->modelled;
      if (up != up_too)
        entry.dropped = std::string("measured figures say it is ") + (up ? "faster" : "slower") +
                        " than the row before, the formula says " + (up_too ? "faster" : "slower");
      else if (more > less * (1 + options.most_discrepancy))
        entry.dropped = text_of("the two predictions differ too much: %.3gx and %.3gx", entry.profiled, entry.modelled);
      else if (entry.profiled < kept * options.least_gain)
        entry.dropped = text_of("it gains too little: %.3gx after %.3gx", entry.profiled, kept);
    }
    before = &entry;
    if (entry.dropped.empty()) kept = entry.profiled;
  }
}

std::vector<ScaleEntry> predicted_scale(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients,
                                        const ScaleOptions& options) {
  if (!job.plan) throw Error("job " + std::to_string(job.id) + ": it has no plan yet");
  return Predictor(job, site, coefficients, options).entries();
}

}  // namespace espalier
