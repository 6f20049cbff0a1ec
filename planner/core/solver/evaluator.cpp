#include "planner/core/solver/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/core/error.hpp"
#include "planner/core/model/form_figures.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/model/scheduled_plan.hpp"
#include "planner/core/solver/layer_balance.hpp"

namespace espalier {

LayerBin layer_bin(const JobCoefficients& job, const StageAt& at, bool first, bool last) {
  const StageRates& rates = at.rates;
  LayerBin bin{rates.fwd + rates.bwd, 0, 0, at.inverse};
  if (first || last) {
    const double compute = (first ? job.first.compute_layers : 0) + (last ? job.last.compute_layers : 0);
    bin.fixed = compute * (rates.comp_fwd + rates.comp_bwd);
  }
  return bin;
}

namespace {

// In ascending order. A number below 1 has none.
std::vector<int> divisors(int number) {
  std::vector<int> small, large;
  for (int n = 1; std::int64_t{n} * n <= number; ++n) {
    if (number % n != 0) continue;
    small.push_back(n);
    if (number / n != n) large.push_back(number / n);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

}  // namespace

Evaluator::Evaluator(const Problem& problem, std::shared_ptr<StageBook> book)
    : problem_(problem),
      book_(book ? std::move(book) : std::make_shared<StageBook>()),
      bins_(kMaxStages),
      times_(kMaxStages),
      split_(kMaxStages) {
  ESPALIER_INVARIANT(problem.job.gpu.size() == problem.hardware.types.size());
  counts_ = divisors(problem.job.global_batch);
  if (const int fixed = problem.bounds.fixed_micro_batches; fixed != 0)
    std::erase_if(counts_, [&](int count) { return count != fixed; });
  for (std::size_t i = 0; i < counts_.size(); ++i) all_choices_.push_back(static_cast<int>(i));
  for (const int tp : problem.job.tp_degrees)
    if (problem.bounds.fixed_tp == 0 || tp == problem.bounds.fixed_tp) tp_degrees_.push_back(tp);
  forms_.assign(problem.forms.begin(), problem.forms.end());
  if (forms_.empty()) forms_.emplace_back();
}

int Evaluator::choice_of(int micro_batches) const {
  const auto at = std::lower_bound(counts_.begin(), counts_.end(), micro_batches);
  return at != counts_.end() && *at == micro_batches ? static_cast<int>(at - counts_.begin()) : -1;
}

void Evaluator::start(StageTable& table, const StageShape& shape) const {
  table.shape = shape;
  table.at = book_->entries(shape, counts_.size());
}

StageTable Evaluator::table(const StageShape& shape) const {
  StageTable result;
  start(result, shape);
  return result;
}

void Evaluator::compute(const StageShape& shape, int choice, StageAt& at) const {
  at.shares = balance_shares(problem_.hardware, problem_.job, shape,
                             problem_.job.global_batch / counts_[static_cast<std::size_t>(choice)],
                             problem_.bounds.equal_shares);
  at.rates = stage_rates(problem_.hardware, problem_.job, shape, at.shares, false);
  at.inverse = at.rates.feasible ? 1 / (at.rates.fwd + at.rates.bwd) : 0;
  at.ready = true;
}

bool Evaluator::degrees_allowed(std::span<const StageTable* const> stages) const {
  const PlanBounds& bounds = problem_.bounds;
  if (bounds.lead_node >= 0 && !stages.front()->shape.leads) return false;
  if (bounds.fixed_pp > 0 && static_cast<int>(stages.size()) != bounds.fixed_pp) return false;
  for (const StageTable* stage : stages) {
    if (stage->shape.replicas <= 0) return false;
    if (bounds.fixed_dp > 0 && stage->shape.replicas != bounds.fixed_dp) return false;
    if (bounds.uniform_dp && stage->shape.replicas != stages.front()->shape.replicas) return false;
  }
  return true;
}

// The proportions of forward's and backward's parts hardly differ between stages: they are the first one's.
double Evaluator::fill_of(std::span<const StageTable* const> stages, int choice, PipelineForm form) const {
  if (plain()) return 1;
  const StageRates& rates = at(*stages.front(), choice).rates;
  const double whole = rates.fwd + rates.bwd;
  const WorkShares work{rates.fwd / whole, problem_.job.deferred * rates.comp_bwd / whole};
  const int count = static_cast<int>(stages.size()), micro_batches = counts_[static_cast<std::size_t>(choice)];
  if (const OwnLists* own = lists_that_run(problem_.job, form, count, micro_batches)) return own->fill(work);
  return fill_share(form, count, micro_batches, work);
}

double Evaluator::assemble(std::span<const StageTable* const> stages, int choice, std::span<const int> layers,
                           PipelineForm form, std::span<StageTime> times) const {
  const int last = form.last_stage(static_cast<int>(stages.size()));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    at(*stages[s], choice);
    StageRates& rates = stages[s]->at[choice].rates;
    if (std::isnan(rates.extra)) rates.extra = stage_extra(problem_.job, rates);
    times[s] = stage_time(problem_.job, rates, layers[s], s == 0, static_cast<int>(s) == last);
  }
  const int micro_batches = counts_[static_cast<std::size_t>(choice)];
  const OwnLists* own = lists_that_run(problem_.job, form, static_cast<int>(stages.size()), micro_batches);
  return formed_iteration(times.first(stages.size()), micro_batches, fill_of(stages, choice, form),
                          own != nullptr ? own->drain() : drain_share(form));
}

double Evaluator::score_choice(std::span<const StageTable* const> stages, int choice, PipelineForm form, double bound,
                               std::span<int> layers) {
  auto& bins = bins_;
  const int micro_batches = counts_[static_cast<std::size_t>(choice)], count = static_cast<int>(stages.size());
  // So many stages can have no more chunks, however the layers fall: no list of such a form is made.
  if (const int most = std::max(1, std::min(problem_.job.layers + 2, kMostListedChunks) / count); form.chunks > most) {
    if (forms_.size() > 1) return kInfeasible;
    form = form.v_shaped() ? PipelineForm{} : PipelineForm{form.kind, static_cast<std::int16_t>(most)};
  }
  double cheapest = kInfeasible, fixed = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageAt& stage = at(*stages[s], choice);
    if (!stage.rates.feasible) return kInfeasible;
    bins[s] = layer_bin(problem_.job, stage, s == 0, static_cast<int>(s) == form.last_stage(count));
    cheapest = std::min(cheapest, bins[s].cost);
    fixed += bins[s].fixed;
  }
  // W >= L * cheapest + fixed, and M >= the continuous bottleneck. Most candidates end here.
  const double fill = fill_of(stages, choice, form), steady = micro_batches - fill;
  const auto used = std::span<const LayerBin>(bins_).first(stages.size());
  const double least =
      fill * (problem_.job.layers * cheapest + fixed) + steady * continuous_bottleneck(used, problem_.job.layers);
  if (least >= bound) return kInfeasible;
  for (std::size_t s = 0; s < stages.size(); ++s)
    bins[s].cap = layer_cap(problem_.hardware, problem_.job, stages[s]->shape, stages[s]->at[choice].shares,
                            {static_cast<int>(s), count, micro_batches, form});
  if (!balance_layers(used, problem_.job.layers, layers)) return kInfeasible;
  // A stage has too few layers for the chunks. Where the planner chooses, it chooses another form.
  if (fitted(form, layers) != form) return forms_.size() > 1 ? kInfeasible : score_layers(stages, choice, layers, form);
  // X >= 0, so a candidate that is too slow without X needs no computation of X.
  double sum = 0, slowest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const double both = bins[s].fixed + layers[s] * bins[s].cost;
    sum += both;
    slowest = std::max(slowest, both);
  }
  if (fill * sum + steady * slowest >= bound) return kInfeasible;
  return assemble(stages, choice, layers, form, times_);
}

Score Evaluator::score(std::span<const StageTable* const> stages, double bound, std::span<const int> choices,
                       std::span<int> layers) {
  Score best{bound, -1};
  if (stages.empty() || stages.size() > kMaxStages || static_cast<int>(stages.size()) > problem_.job.layers ||
      !degrees_allowed(stages))
    return {};
  auto& split = split_;
  for (const int choice : choices.empty() ? std::span<const int>(all_choices_) : choices)
    for (const PipelineForm& form : forms_) {
      const double ms = score_choice(stages, choice, form, best.ms, std::span(split).first(stages.size()));
      if (ms >= best.ms) continue;
      best = {ms, choice, form};
      if (!layers.empty()) std::copy_n(split.begin(), stages.size(), layers.begin());
      if (stages.size() == 1) break;  // all are alike
    }
  return best.choice >= 0 ? best : Score{};
}

double Evaluator::score_layers(std::span<const StageTable* const> stages, int choice, std::span<const int> layers,
                               PipelineForm form) const {
  const int count = static_cast<int>(stages.size()), micro_batches = counts_[static_cast<std::size_t>(choice)];
  if (count == 0 || count > kMaxStages || !degrees_allowed(stages)) return kInfeasible;
  form = fitted(form, layers);
  int sum = 0;
  for (int s = 0; s < count; ++s) {
    const StageTable& stage = *stages[static_cast<std::size_t>(s)];
    const StageAt& now = at(stage, choice);
    const int own = layers[static_cast<std::size_t>(s)];
    sum += own;
    if (!now.rates.feasible || own < 1 ||
        own > layer_cap(problem_.hardware, problem_.job, stage.shape, now.shares, {s, count, micro_batches, form}))
      return kInfeasible;
  }
  if (sum != problem_.job.layers) return kInfeasible;
  return assemble(stages, choice, layers, form, times_);
}

double Evaluator::exact(std::span<const StageTable* const> stages, int choice, std::span<const int> layers,
                        PipelineForm form) const {
  form = fitted(form, layers);
  assemble(stages, choice, layers, form, times_);
  const auto times = std::span<const StageTime>(times_).first(stages.size());
  const int micro_batches = counts_[static_cast<std::size_t>(choice)];
  const bool own = lists_that_run(problem_.job, form, static_cast<int>(stages.size()), micro_batches) != nullptr;
  if (stages.size() < 2 || (form.plain() && !own)) return exact_iteration(times, micro_batches);
  std::vector<StageRates> rates;
  for (const StageTable* stage : stages) rates.push_back(stage->at[choice].rates);
  return scheduled_iteration(problem_.job, form, rates, times, cut_or_whole(layers, form), micro_batches);
}

std::vector<StageTable> Evaluator::tables_of(const PlanSketch& sketch) const {
  std::vector<StageTable> tables;
  tables.reserve(sketch.stages.size());
  for (const StageSketch& stage : sketch.stages)
    tables.push_back(table(stage_shape(problem_, stage.pieces, {}, stage.tp)));
  return tables;
}

namespace {

std::vector<const StageTable*> pointers(const std::vector<StageTable>& tables) {
  std::vector<const StageTable*> result;
  for (const StageTable& table : tables) result.push_back(&table);
  return result;
}

std::vector<int> layers_of(const PlanSketch& sketch) {
  std::vector<int> layers;
  for (const StageSketch& stage : sketch.stages) layers.push_back(stage.layers);
  return layers;
}

}  // namespace

double Evaluator::score_sketch(const PlanSketch& sketch) {
  const int choice = choice_of(sketch.micro_batches);
  if (choice < 0) return kInfeasible;
  const auto tables = tables_of(sketch);
  return score_layers(pointers(tables), choice, layers_of(sketch), sketch.form);
}

double Evaluator::exact_sketch(const PlanSketch& sketch) {
  const int choice = choice_of(sketch.micro_batches);
  if (choice < 0 || sketch.stages.size() > kMaxStages) return kInfeasible;
  const auto tables = tables_of(sketch);
  return exact(pointers(tables), choice, layers_of(sketch), sketch.form);
}

Score Evaluator::balance_sketch(PlanSketch& sketch, int only) {
  if (sketch.stages.empty() || sketch.stages.size() > kMaxStages) return {};
  const auto tables = tables_of(sketch);
  std::vector<int> layers(sketch.stages.size());
  const Score best =
      score(pointers(tables), kInfeasible, only >= 0 ? std::span<const int>(&only, 1) : std::span<const int>(), layers);
  if (!best.feasible()) return best;
  sketch.micro_batches = counts_[static_cast<std::size_t>(best.choice)];
  sketch.form = best.form;
  for (std::size_t s = 0; s < layers.size(); ++s) sketch.stages[s].layers = layers[s];
  return best;
}

bool Evaluator::allowed(const PlanSketch& sketch) const {
  const int gpus = sketch.gpus();
  if (gpus < problem_.bounds.min_gpus || gpus > problem_.bounds.max_gpus) return false;
  for (const StageSketch& stage : sketch.stages) {
    if (std::find(tp_degrees_.begin(), tp_degrees_.end(), stage.tp) == tp_degrees_.end()) return false;
    for (const Piece& piece : stage.pieces)
      if (!problem_.bounds.allows_type(piece.type)) return false;
  }
  return choice_of(sketch.micro_batches) >= 0;
}

}  // namespace espalier
