#include "planner/core/solver/pareto_run.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/model/form_figures.hpp"

namespace espalier {
namespace {

// Looking at this many takes costs about as much as a label.
constexpr long kTakesPerLabel = 16;
constexpr long kLabelsBetweenAsks = 1000;  // labels between two calls of `stop`
// One state's takes must not use up the remaining work.
constexpr long kFewTakes = 100, kStatesAtLeast = 16;

double fill_on_eight(const Evaluator& evaluator, PipelineForm form, int micro_batches) {
  if (evaluator.least_fill() == 1) return 1;
  const JobCoefficients& job = evaluator.problem().job;
  const double backward = job.gpu.front().backward + (job.recompute ? 1 : 0);
  return fill_share(form, 8, micro_batches, {1 / (1 + backward), job.deferred * backward / (1 + backward)});
}

}  // namespace

bool ParetoWork::ended() {
  if (!ended_ && stop_ && done_ - asked_ >= kLabelsBetweenAsks) {
    asked_ = done_;
    ended_ = stop_();
  }
  return ended_ = ended_ || done_ >= most_;
}

ParetoRun::ParetoRun(const Evaluator& evaluator, GpuStates& states, int choice, int dp, PipelineForm form)
    : problem_(evaluator.problem()),
      states_(states),
      choice_(choice),
      dp_(dp),
      layers_(evaluator.problem().job.layers),
      micro_batches_(evaluator.micro_batch_counts()[static_cast<std::size_t>(choice)]),
      depth_classes_(std::max(2, std::min(micro_batches_, layers_))),
      form_(form),
      fill_(fill_on_eight(evaluator, form, micro_batches_)),
      further_(micro_batches_ - fill_),
      rest_(evaluator, states, choice, dp) {
  bound_ = bound_of({}, rest_.need(0));
}

long ParetoRun::count_pools(long most) {
  const long labels = rest_.count_pools(most);
  bound_ = bound_of({}, rest_.need(0));
  return labels;
}

long ParetoRun::fill_tables(long most) {
  const long labels = rest_.fill_tables(most);
  bound_ = bound_of({}, rest_.need(0));
  return labels;
}

const ParetoRun::Stage& ParetoRun::stage(int shape) {
  const auto at = static_cast<std::size_t>(shape);
  if (at >= stages_.size()) {
    stages_.resize(static_cast<std::size_t>(states_.shapes()));
    caps_.resize(stages_.size() * 2 * (static_cast<std::size_t>(depth_classes_) + 1), -1);
  }
  Stage& stage = stages_[at];
  if (stage.known) return stage;
  const StageShape& form = states_.shape(shape);
  stage.known = true;
  if (dp_ > 0 && form.replicas != dp_) return stage;
  stage.shares = balance_shares(problem_.hardware, problem_.job, form, problem_.job.global_batch / micro_batches_,
                                problem_.bounds.equal_shares);
  stage.rates = stage_rates(problem_.hardware, problem_.job, form, stage.shares);
  stage.both = stage.rates.fwd + stage.rates.bwd;
  stage.allowed = stage.rates.feasible;
  return stage;
}

int ParetoRun::cap(int shape, int depth, bool first) {
  const int depth_class = std::min(depth, depth_classes_);
  const auto at = static_cast<std::size_t>((shape * (depth_classes_ + 1) + depth_class) * 2 + (first ? 1 : 0));
  if (caps_[at] < 0) {
    const StagePosition position{first ? 0 : 1, first ? depth : depth + 1, micro_batches_};
    caps_[at] = static_cast<std::int16_t>(
        layer_cap(problem_.hardware, problem_.job, states_.shape(shape), stage(shape).shares, position));
  }
  return caps_[at];
}

// sum t + (N_b - 1) max t + E for the best continuation.
double ParetoRun::bound_of(const ParetoLabel& label, const RestNeed& need) const {
  const int left = layers_ - label.placed;
  const double shown =
      std::max(fill_ * left * need.cost + rest_.least_extra(), fill_ * left * need.forward + label.tail);
  return label.sum + shown + further_ * std::max(label.slowest, need.slowest(left));
}

// True: with any continuation, a costs no more than b. If a's max t or E is larger, the difference
// costs at most its full weight.
bool ParetoRun::dominates(const ParetoLabel& a, const ParetoLabel& b) const {
  if (a.depth > b.depth && layers_ > kMaxStages) return false;
  if (a.depth != b.depth && problem_.bounds.fixed_pp > 0) return false;
  const int class_a = std::min<int>(a.depth, micro_batches_), class_b = std::min<int>(b.depth, micro_batches_);
  if (class_a > class_b) return false;
  const double cost = a.sum + further_ * std::max(0.0, a.slowest - b.slowest) + std::max(0.0, a.tail - b.tail);
  return cost <= b.sum * (1 + 1e-12);
}

ParetoRun::End ParetoRun::run(std::size_t width, ParetoWork& work, ParetoBest& best, ParetoScratch& scratch) {
  scratch_ = &scratch;
  scratch.labels.assign(1, {});
  scratch.labels[0].bound = bound_;
  scratch.levels.resize(static_cast<std::size_t>(layers_) + 1);
  for (auto& level : scratch.levels) level.clear();
  scratch.levels[0].push_back(0);
  const End end = extend(width, work, best);
  for (std::size_t i = 1; i < scratch.labels.size(); ++i) scratch.heads[head_of(scratch.labels[i])] = -1;
  return end;
}

ParetoRun::End ParetoRun::extend(std::size_t width, ParetoWork& work, ParetoBest& best) {
  const auto& labels = scratch_->labels;
  bool narrowed = false;
  for (int placed = 0; placed < layers_; ++placed) {
    auto& level = scratch_->levels[static_cast<std::size_t>(placed)];
    std::erase_if(level, [&](int index) {
      const ParetoLabel& label = labels[static_cast<std::size_t>(index)];
      return label.dominated || label.bound >= best.limit();
    });
    const auto promising = [&](int a, int b) {
      return std::tuple(labels[static_cast<std::size_t>(a)].bound, a) <
             std::tuple(labels[static_cast<std::size_t>(b)].bound, b);
    };
    std::sort(level.begin(), level.end(), promising);
    if (level.size() > width) level.resize(width), narrowed = true;
    for (const int index : level) {
      if (labels[static_cast<std::size_t>(index)].bound >= best.limit()) break;
      if (work.ended()) return End::stopped;
      expand(index, work, best);
    }
  }
  return narrowed ? End::narrowed : End::complete;
}

std::size_t ParetoRun::head_of(const ParetoLabel& label) const {
  return static_cast<std::size_t>(label.state) * static_cast<std::size_t>(layers_ + 1) +
         static_cast<std::size_t>(label.placed);
}

void ParetoRun::expand(int index, ParetoWork& work, ParetoBest& best) {
  const ParetoLabel from = scratch_->labels[static_cast<std::size_t>(index)];
  const int left = layers_ - from.placed, depth = from.depth + 1;
  const bool enumerated = states_.enumerated(from.state);
  const auto takes =
      states_.takes(from.state, static_cast<std::size_t>(std::max(kFewTakes, work.left() / kStatesAtLeast)));
  const auto before = static_cast<long>(scratch_->labels.size());
  const double cost = rest_.need(from.state).cost;
  for (std::size_t begin = 0, end = 0; begin < takes.size(); begin = end) {
    const int shape = takes[begin].shape;
    while (end < takes.size() && takes[end].shape == shape) ++end;
    const Stage& taken = stage(shape);
    if (!taken.allowed) continue;
    if (static_cast<long>(scratch_->labels.size()) - before > work.left()) break;
    const int fixed_pp = problem_.bounds.fixed_pp;
    if (fixed_pp == 0 || depth == fixed_pp) finish(index, shape, takes[begin], best);
    if (depth >= (fixed_pp > 0 ? fixed_pp : kMaxStages)) continue;
    // With l layers in this stage, T >= sum + fill * (l * both + (left - l) * cost) + further *
    // max(slowest, l * both) + least extra.
    const double slack = best.limit() - from.sum - fill_ * left * cost - rest_.least_extra();
    const double surplus = fill_ * (taken.both - cost), further = further_;
    const double spare = slack - further * from.slowest;
    if (spare <= 0) return;
    int most = std::min(left - 1, cap(shape, depth, false));
    if (most * surplus > spare) most = static_cast<int>(spare / surplus);
    if (most * (surplus + further * taken.both) > slack)
      most = static_cast<int>(slack / (surplus + further * taken.both));
    if (most < 1) continue;
    for (std::size_t i = begin; i < end; ++i)
      if (states_.can_lead(takes[i].next)) place(index, takes[i], most, slack, best);
  }
  work.add(static_cast<long>(scratch_->labels.size()) - before + static_cast<long>(takes.size()) / kTakesPerLabel +
           (enumerated ? 0 : static_cast<long>(takes.size())));
}

void ParetoRun::finish(int index, int shape, const Take& take, ParetoBest& best) {
  const ParetoLabel& from = scratch_->labels[static_cast<std::size_t>(index)];
  const int left = layers_ - from.placed;
  const Stage& taken = stage(shape);
  const double further = further_;
  if (from.sum + left * taken.both * (fill_ + further) >= best.limit()) return;
  if (problem_.bounds.lead_node >= 0 && !states_.shape(shape).leads) return;
  if (left > cap(shape, from.depth + 1, true) || states_.used(take.next) < problem_.bounds.min_gpus) return;
  const StageTime time = stage_time(problem_.job, taken.rates, left, true, from.depth == 0);
  const double both = time.fwd + time.bwd;
  const double ms =
      from.sum + fill_ * both + further * std::max(from.slowest, both) + std::max(time.extra, from.tail - time.bwd);
  if (ms >= best.limit()) return;
  best.ms = ms;
  best.choice = choice_;
  best.form = form_;
  best.taken = {take};
  best.layers = {left};
  for (int i = index; scratch_->labels[static_cast<std::size_t>(i)].depth > 0;
       i = scratch_->labels[static_cast<std::size_t>(i)].parent) {
    const ParetoLabel& label = scratch_->labels[static_cast<std::size_t>(i)];
    best.taken.push_back({label.shape, label.state});
    best.layers.push_back(label.layers);
  }
  std::reverse(best.taken.begin(), best.taken.end());
  std::reverse(best.layers.begin(), best.layers.end());
}

void ParetoRun::place(int index, const Take& take, int most, double slack, ParetoBest& best) {
  const ParetoLabel from = scratch_->labels[static_cast<std::size_t>(index)];
  const Stage& taken = stage(take.shape);
  const RestNeed after = rest_.need(take.next);
  for (int layers = most; layers >= 1; --layers) {
    const int left = layers_ - from.placed - layers;
    const double slowest_left = after.slowest(left);
    // slowest_left rises with `left`.
    if (further_ * slowest_left >= slack || slowest_left == kInfeasible) break;
    const StageTime time = stage_time(problem_.job, taken.rates, layers, false, from.depth == 0);
    ParetoLabel label;
    label.sum = from.sum + fill_ * (time.fwd + time.bwd);
    // A value below its floor does not affect the final time. Raising values to the floor lets more
    // labels dominate others.
    label.slowest = std::max({from.slowest, time.fwd + time.bwd, slowest_left});
    label.tail = std::max({time.extra, from.tail - time.bwd, rest_.least_extra() + left * after.backward});
    label.parent = index;
    label.state = take.next;
    label.shape = take.shape;
    label.depth = static_cast<std::int16_t>(from.depth + 1);
    label.layers = static_cast<std::int16_t>(layers);
    label.placed = static_cast<std::int16_t>(from.placed + layers);
    label.bound = bound_of(label, after);
    if (label.bound < best.limit()) insert(label);
  }
}

void ParetoRun::insert(const ParetoLabel& label) {
  const std::size_t head = head_of(label);
  auto& heads = scratch_->heads;
  if (head >= heads.size())
    heads.resize(static_cast<std::size_t>(states_.states()) * static_cast<std::size_t>(layers_ + 1), -1);
  std::int32_t* link = &heads[head];
  while (*link >= 0) {
    ParetoLabel& other = scratch_->labels[static_cast<std::size_t>(*link)];
    if (dominates(other, label)) return;
    if (dominates(label, other)) {
      other.dominated = true;
      *link = other.older;
    } else {
      link = &other.older;
    }
  }
  const auto id = static_cast<std::int32_t>(scratch_->labels.size());
  *link = id;
  scratch_->labels.push_back(label);
  scratch_->levels[static_cast<std::size_t>(label.placed)].push_back(id);
}

}  // namespace espalier
