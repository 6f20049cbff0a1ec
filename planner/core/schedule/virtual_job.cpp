#include "planner/core/schedule/virtual_job.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/schedule/benefit.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/core/solver/shrink.hpp"
#include "planner/core/solver/thinning.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostShrunk = 64;

// The most GPUs by which a job may grow in one round: its own number, as the paper stops at M ~ N,
// but at least a node's, so that a small job can fill one node.
int reach(const ElasticJob& job, const Site& site, int present_gpus) {
  int node = 1;
  for (const Holding& held : job.anchor)
    if (const int index = site.topology.find(held.node); index >= 0)
      node = std::max(node, static_cast<int>(site.topology.gpu_types(index).size()));
  return std::max(present_gpus, node);
}

}  // namespace

namespace {

// Visits all sizes that only memory depends on. `gradients`: also the sizes that synchronization
// time depends on.
template <class Visit>
void for_each_size(JobCoefficients& job, bool gradients, Visit visit) {
  for (double* bytes :
       {&job.param_optim_bytes, &job.weight_bytes, &job.activ_p_bytes, &job.activ_np_bytes, &job.tied_bytes})
    visit(*bytes);
  for (EdgeCoefficients* edge : {&job.first, &job.last}) {
    visit(edge->param_optim_bytes);
    visit(edge->activation_bytes);
    if (gradients) visit(edge->param_bytes);
  }
  if (gradients) visit(job.param_bytes);
}

// Calls visit(bytes, limit) with the memory peak of every kind of GPU in the plan.
template <class Visit>
void for_each_peak(const Problem& problem, const PlanSketch& plan, const JobCoefficients& coefficients, Visit visit) {
  const int stages = static_cast<int>(plan.stages.size());
  std::vector<int> layers;
  for (const StageSketch& stage : plan.stages) layers.push_back(stage.layers);
  const PipelineForm form = fitted(plan.form, layers);
  for (int s = 0; s < stages; ++s) {
    const StageSketch& stage = plan.stages[static_cast<std::size_t>(s)];
    const StageShape shape = stage_shape(problem, stage.pieces, {}, stage.tp);
    const Shares shares = balance_shares(problem.hardware, coefficients, shape,
                                         coefficients.global_batch / std::max(1, plan.micro_batches));
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape.class_count); ++c) {
      const auto type = static_cast<std::size_t>(shape.classes[c].type);
      visit(peak_memory(coefficients, stage.layers, std::max(1, shares.most[c]), stage.tp, shape.replicas,
                        {s, stages, plan.micro_batches, form})
                .peak,
            problem.hardware.memory_share * problem.hardware.types[type].memory_bytes);
    }
  }
}

}  // namespace

void fit_memory_to_running_plan(const Problem& problem, const PlanSketch& running, JobCoefficients& coefficients) {
  std::vector<double> peaks, least, limits;
  for_each_peak(problem, running, coefficients, [&](double peak, double limit) {
    peaks.push_back(peak);
    limits.push_back(limit);
  });
  JobCoefficients gradients_alone = coefficients;
  for_each_size(gradients_alone, false, [](double& bytes) { bytes = 0; });
  for_each_peak(problem, running, gradients_alone, [&](double peak, double) { least.push_back(peak); });
  // Peaks are convex in the factor. Between the peak of gradients alone and the whole peak they are
  // therefore at most on the line.
  double factor = 1;
  bool with_gradients = false;
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i] <= limits[i]) continue;
    if (least[i] >= limits[i]) with_gradients = true;
    else factor = std::min(factor, (limits[i] - least[i]) / (peaks[i] - least[i]));
  }
  if (with_gradients) {
    for (std::size_t i = 0; i < peaks.size(); ++i) factor = std::min(factor, limits[i] / peaks[i]);
  } else if (factor == 1) {
    return;
  }
  for_each_size(coefficients, with_gradients, [&](double& bytes) { bytes *= factor * (1 - 1e-6); });
  coefficients.memory_assumed = true;
}

std::unique_ptr<VirtualJob> VirtualJob::make(const ElasticJob& job, std::shared_ptr<const Site> site,
                                             const JobCoefficients& coefficients, bool data_parallel_only,
                                             StageBooks* books) {
  if (!job.plan) return nullptr;
  const auto own_site = site_for(site, job);
  auto sketch = sketch_of(*job.plan, *own_site);
  if (!sketch) return nullptr;
  std::unique_ptr<VirtualJob> made(new VirtualJob);
  made->job_ = job;
  made->given_site_ = std::move(site);
  made->site_ = own_site;
  made->given_ = coefficients;
  made->coefficients_ = as_the_job_allows(coefficients, job);
  made->bounds_ = bounds_of(job, *made->site_, data_parallel_only);
  // Where the user fixed it, the chunks that the layers allow follow from the layers.
  const auto forms = forms_of(job);
  if (forms.size() == 1) sketch->form = forms.front();
  const Problem problem{made->site_->hardware, made->site_->topology, made->coefficients_, made->bounds_, forms};
  fit_memory_to_running_plan(problem, *sketch, made->coefficients_);
  made->evaluator_ = std::make_unique<Evaluator>(
      problem, books != nullptr ? books->of(made->given_site_, made->coefficients_, made->bounds_) : nullptr);
  made->present_ = working_plan(*made->evaluator_, std::move(*sketch), true);
  // Even if the plan's shares are not the model's choice, it can be scored with the model's shares.
  if (!made->present_.feasible()) return nullptr;
  made->holdings_ = held_by(job, *made->site_);
  made->held_ = held_gpus(made->holdings_);
  return made;
}

bool VirtualJob::stands_for(const ElasticJob& job, const std::shared_ptr<const Site>& site,
                            const JobCoefficients& coefficients) const {
  return site == given_site_ && job.plan == job_.plan && job.anchor == job_.anchor &&
         job.extensions == job_.extensions && job.max_gpus == job_.max_gpus && job.floor_gpus == job_.floor_gpus &&
         job.accuracy == job_.accuracy && job.parallel == job_.parallel && job.gpu_islands == job_.gpu_islands &&
         job.jobs_reach == job_.jobs_reach && coefficients == given_;
}

void VirtualJob::inherit(VirtualJob& before) {
  const auto& forms = before.evaluator_->forms();
  if (forms != evaluator_->forms() || before.site_ != site_ || !(before.coefficients_ == coefficients_) ||
      !(before.bounds_ == bounds_))
    return;
  evaluator_->known_tilings() = std::move(before.evaluator_->known_tilings());
}

namespace {

// Records the pair (was, now) of a one-to-one mapping. False: `was` or `now` is already paired with
// another.
bool pair_up(std::map<int, int>& forward, std::map<int, int>& backward, int was, int now) {
  const auto ahead = forward.try_emplace(was, now).first;
  const auto behind = backward.try_emplace(now, was).first;
  return ahead->second == now && behind->second == was;
}

}  // namespace

// Whether `now` can replace `was` in every plan. That holds for the same GPUs. It also holds for as
// many GPUs of the same type on another node that is equivalent for this job: the job holds nothing
// on either node, and both nodes have the same leaf switch, or leaf switches at the same distance
// from the job.
bool VirtualJob::interchangeable(const AffinityUnit& was, const AffinityUnit& now) const {
  if (was.type != now.type || was.gpus.size() != now.gpus.size()) return false;
  if (was.node == now.node) return true;
  const Topology& topology = site_->topology;
  if (topology.kind(was.node) != topology.kind(now.node)) return false;
  const int leaf = topology.leaf(was.node), other = topology.leaf(now.node);
  if (leaf != other && topology.parent(leaf) != topology.parent(other)) return false;
  return std::none_of(held_.begin(), held_.end(), [&](const NodeGpus& held) {
    const int own = topology.leaf(held.node);
    return held.node == was.node || held.node == now.node || (leaf != other && (own == leaf || own == other));
  });
}

// The number of known units that the new units can replace, and which node replaces which
// (`renamed`). Nodes are mapped one to one, and so are leaf switches: units that stood together
// still do.
std::size_t VirtualJob::common_units(const std::vector<AffinityUnit>& units, std::map<int, int>& renamed) const {
  std::map<int, int> back, leaves, leaves_back;
  std::size_t same = 0;
  for (; same < units.size() && same < units_.size(); ++same) {
    const int was = units_[same].node, now = units[same].node;
    if (!interchangeable(units_[same], units[same])) break;
    if (!pair_up(leaves, leaves_back, site_->topology.leaf(was), site_->topology.leaf(now))) break;
    if (!pair_up(renamed, back, was, now)) break;
  }
  // The pair that ended the loop belongs to no common unit. It renames nothing that is kept.
  std::erase_if(renamed, [](const auto& pair) { return pair.first == pair.second; });
  return same;
}

void VirtualJob::rename(const std::map<int, int>& renamed) {
  for (PrefixPlan& prefix : prefixes_)
    for (StageSketch& stage : prefix.plan.sketch.stages) {
      bool changed = false;
      for (Piece& piece : stage.pieces)
        if (const auto at = renamed.find(piece.node); at != renamed.end()) {
          piece.node = at->second;
          changed = true;
        }
      if (changed)
        std::sort(stage.pieces.begin(), stage.pieces.end(), [](const Piece& x, const Piece& y) {
          return std::tuple(x.node, x.type) < std::tuple(y.node, y.type);
        });
    }
}

void VirtualJob::explore(const std::vector<NodeGpus>& idle, const ExpandOptions& options, bool extend) {
  const int gpus = present_.sketch.gpus();
  const int most = std::min(bounds_.max_gpus - gpus, reach(job_, *site_, gpus));
  std::vector<AffinityUnit> units;
  if (most > 0)
    units = cut_units(affinity_order(site_->hardware, site_->topology, held_, idle, most, options.ties),
                      unit_size(gpus), most);
  std::map<int, int> renamed;
  const std::size_t same = common_units(units, renamed);
  if (prefixes_.size() > same + 1) prefixes_.resize(same + 1);
  if (!renamed.empty()) rename(renamed);
  units_ = std::move(units);
  if (!extend && !prefixes_.empty()) return;
  std::vector<Piece> pieces;
  for (const AffinityUnit& unit : units_)
    pieces.push_back({unit.node, unit.type, static_cast<std::int16_t>(unit.gpus.size())});
  prefixes_ = options.solver != nullptr ? options.solver->solve(*evaluator_, present_, pieces, std::move(prefixes_))
                                        : expand_prefixes(*evaluator_, present_, pieces, options, std::move(prefixes_));
}

bool VirtualJob::looks_at(const std::vector<int>& nodes) const {
  return std::any_of(units_.begin(), units_.end(), [&](const AffinityUnit& unit) {
    return std::binary_search(nodes.begin(), nodes.end(), unit.node);
  });
}

std::vector<NodeGpus> VirtualJob::held_without(const std::vector<JobId>& extensions) const {
  return held_gpus(holdings_, extensions);
}

double VirtualJob::size_of(const std::vector<NodeGpus>& gpus) const {
  return allocation_size(site_->hardware, pieces_of(gpus, *site_));
}

double VirtualJob::benefit_of(std::size_t prefix) const {
  if (prefix == 0 || prefix >= prefixes_.size() || !prefixes_[prefix].plan.feasible()) return 0;
  double added = 0;
  for (std::size_t i = 0; i < prefix; ++i) {
    const Piece piece{units_[i].node, units_[i].type, static_cast<std::int16_t>(units_[i].gpus.size())};
    added += allocation_size(site_->hardware, std::span(&piece, 1));
  }
  const double base = replanned_ ? std::min(present_.ms, replanned_->ms) : present_.ms;
  return marginal_benefit(size_of(held_), added, base, prefixes_[prefix].plan.ms);
}

const WorkingPlan& VirtualJob::replanned(const SearchEffort& effort) {
  if (!replanned_) {
    const auto pieces = pieces_of(held_, *site_);
    const auto found = best_plan(*evaluator_, pieces, std::span(&present_.sketch, 1), effort);
    replanned_ = found && found->ms < present_.ms ? working_plan(*evaluator_, found->sketch, true) : present_;
  }
  return *replanned_;
}

std::vector<NodeGpus> VirtualJob::held_with(std::size_t prefix) const {
  std::vector<NodeGpus> held = held_;
  for (std::size_t i = 0; i < prefix; ++i) {
    const AffinityUnit& unit = units_[i];
    auto at = std::lower_bound(held.begin(), held.end(), unit.node,
                               [](const NodeGpus& n, int node) { return n.node < node; });
    if (at == held.end() || at->node != unit.node) at = held.insert(at, {unit.node, {}});
    at->gpus.insert(at->gpus.end(), unit.gpus.begin(), unit.gpus.end());
    std::sort(at->gpus.begin(), at->gpus.end());
  }
  return held;
}

void VirtualJob::apply(std::size_t prefix) {
  present_ = prefixes_[prefix].plan;
  held_ = held_with(prefix);
  // Longer prefixes are plans on this prefix and the next units. They stay valid.
  const int taken = prefixes_[prefix].gpus;
  prefixes_.erase(prefixes_.begin(), prefixes_.begin() + static_cast<std::ptrdiff_t>(prefix));
  for (PrefixPlan& left : prefixes_) left.gpus -= taken;
  units_.erase(units_.begin(), units_.begin() + static_cast<std::ptrdiff_t>(prefix));
  replanned_.reset();
  stack_.reset();
  shrunk_.clear();
}

void VirtualJob::settle(WorkingPlan plan) {
  present_ = std::move(plan);
  replanned_.reset();
  stack_.reset();
  shrunk_.clear();
  units_.clear();
  prefixes_.clear();
}

void VirtualJob::forget() {
  units_.clear();
  prefixes_.clear();
}

const std::vector<StackTop>& VirtualJob::stack(const SearchEffort& effort) {
  if (stack_) return *stack_;
  std::vector<JobId> ids;
  for (const Holding& held : job_.extensions) ids.push_back(held.job);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  stack_.emplace();
  double above = size_of(held_), above_ms = present_.ms;
  for (std::size_t top = 1; top <= ids.size(); ++top) {
    if (!looked_at(top) && top != ids.size()) continue;
    StackTop entry;
    entry.extensions.assign(ids.end() - static_cast<std::ptrdiff_t>(top), ids.end());
    const auto kept = held_without(entry.extensions);
    const auto below = shrunk_to(kept, effort);
    if (!below) continue;
    const double left = size_of(kept);
    entry.benefit = marginal_benefit(left, size_of(held_) - left, below->ms, present_.ms);
    entry.own_benefit = marginal_benefit(left, above - left, below->ms, above_ms);
    entry.slower = below->ms / present_.ms;
    above = left, above_ms = below->ms;
    stack_->push_back(std::move(entry));
  }
  return *stack_;
}

std::optional<WorkingPlan> VirtualJob::shrunk_to(const std::vector<NodeGpus>& kept, const SearchEffort& effort) {
  auto pieces = pieces_of(kept, *site_);
  const auto known = std::find_if(shrunk_.begin(), shrunk_.end(),
                                  [&](const Shrunk& one) { return one.effort == effort && one.kept == pieces; });
  if (known != shrunk_.end()) return known->plan;
  // A job may be asked repeatedly and never shrink.
  if (shrunk_.size() >= kMostShrunk) shrunk_.clear();
  auto found = shrink_plan(*evaluator_, present_.sketch, pieces, effort);
  shrunk_.push_back({std::move(pieces), effort, found});
  return found;
}

}  // namespace espalier
