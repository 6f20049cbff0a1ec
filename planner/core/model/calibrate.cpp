#include "planner/core/model/calibrate.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/degree_factor.hpp"
#include "planner/core/model/layer_times.hpp"
#include "planner/core/model/observed_memory.hpp"
#include "planner/core/model/observed_sync.hpp"
#include "planner/core/model/placed_plan.hpp"
#include "planner/core/model/unseen_types.hpp"

namespace espalier {
namespace {

class Inversion {
 public:
  Inversion(const Hardware& hardware, const Topology& topology, const Profile& profile, Training training,
            const KnownBefore& known, std::shared_ptr<const OwnLists> own_lists)
      : hardware_(hardware),
        profile_(profile),
        placed_(place_plan(topology, profile.plan)),
        known_rail_(known.rail_ms_per_byte),
        own_lists_(std::move(own_lists)) {
    training.recompute = profile.recompute;
    training.zero1 = profile.zero1;
    training.sums_by_unit = training_of(profile.shape, false).sums_by_unit;
    job() = model_sizes(profile.shape, training, hardware.types.size());
    if (profile.plan.total_layers() != profile.shape.layers)
      throw Error("profile: its plan holds " + std::to_string(profile.plan.total_layers()) + " layers, its model has " +
                  std::to_string(profile.shape.layers));
    job().global_batch = profile.plan.global_batch;
    degrees(known.job);
    edges(known.job);
    for (const ReplicaProfile& one : profile.replicas) {
      if (one.stage < 0 || one.stage >= stages() || one.replica < 0 ||
          static_cast<std::size_t>(one.replica) >= stage_plan(one).replicas.size())
        throw Error("profile: stage " + std::to_string(one.stage) + " replica " + std::to_string(one.replica) +
                    " is not in its plan");
      types_.push_back(replica_class(topology, replica_plan(one)).type);
    }
  }

  Calibration solve() {
    sizes();
    times();
    overlaps();
    scale_to_unseen_types(job(), hardware_, result_.remarks);
    memory();
    return std::move(result_);
  }

 private:
  JobCoefficients& job() { return result_.job; }
  int stages() const { return static_cast<int>(profile_.plan.stages.size()); }
  const Stage& stage_plan(const ReplicaProfile& one) const {
    return profile_.plan.stages[static_cast<std::size_t>(one.stage)];
  }
  const Replica& replica_plan(const ReplicaProfile& one) const {
    return stage_plan(one).replicas[static_cast<std::size_t>(one.replica)];
  }
  bool first(const ReplicaProfile& one) const { return one.stage == 0; }
  // Chunks in a V end on the first stage, which then has both edges.
  bool last(const ReplicaProfile& one) const { return one.stage == placed_.form.last_stage(stages()); }
  bool inner(const ReplicaProfile& one) const { return !first(one) && !last(one); }
  StageLoad load(const ReplicaProfile& one) { return stage_load(job(), stage_plan(one).layers, first(one), last(one)); }

  static std::string name(const ReplicaProfile& one) {
    return "stage " + std::to_string(one.stage) + " replica " + std::to_string(one.replica);
  }

  // The first inner replica that `wanted` accepts, else the first other replica that it accepts.
  // Null: it accepts none.
  template <class Wanted>
  const ReplicaProfile* choose(Wanted wanted) const {
    const ReplicaProfile* chosen = nullptr;
    for (std::size_t i = 0; i < profile_.replicas.size(); ++i) {
      const ReplicaProfile& one = profile_.replicas[i];
      if (wanted(one, types_[i]) && (!chosen || (inner(one) && !inner(*chosen)))) chosen = &one;
    }
    return chosen;
  }

  // What TP and the samples do to the computation, with the factor 1 at the first stage's degree.
  void degrees(const JobCoefficients* known) {
    const int told = profile_.plan.stages.front().tp;
    if (profile_.shape.family == kDataFamily) {
      if (has_several_units(profile_.shape)) job().degree_factors = {{told, 1}};
    } else if (const auto fit = fit_layer_times(profile_.layer_times, told)) {
      job().degree_factors = fit->degree_factors;
      job().fixed_samples = fit->fixed_samples;
    } else if (known && !known->degree_factors.empty()) {
      const JobCoefficients same = told_for_degree(*known, told);
      job().fixed_samples = same.fixed_samples;
      // Where this degree is new, its time is measured now, and refine() adds the other degrees that are known.
      job().degree_factors =
          degree_is_measured(*known, told) ? same.degree_factors : std::vector<DegreeFactor>{{told, 1}};
    }
  }

  // Without them the times of a pipeline's end stages are assumed until one with an inner stage has run.
  void edges(const JobCoefficients* known) {
    const auto told = edge_layers(profile_.layer_times, profile_.edge_times);
    for (EdgeCoefficients JobCoefficients::*edge : {&JobCoefficients::first, &JobCoefficients::last}) {
      EdgeCoefficients& own = job().*edge;
      if (told) own.compute_layers = edge == &JobCoefficients::first ? told->first : told->last;
      else if (known && !(known->*edge).assumed_compute) own.compute_layers = (known->*edge).compute_layers;
      else continue;
      own.assumed_compute = false;
    }
  }

  // Steps 4, 6 and 7.
  void sizes() {
    if (profile_.boundary_bytes > 0) {
      job().activ_bytes = profile_.boundary_bytes;
      job().boundary_assumed = false;
    }
    const auto* one = choose([](const ReplicaProfile& r, int) { return r.gradient_bytes > 0 && r.state_bytes > 0; });
    if (!one) {
      result_.remarks.push_back("no sizes of parameters were reported: those of the model's shape are used");
      return;
    }
    const double per_layer = static_cast<double>(stage_plan(*one).tp) / stage_plan(*one).layers;
    const auto shards = static_cast<double>(job().zero1 ? stage_plan(*one).replicas.size() : 1);
    job().param_bytes = one->gradient_bytes * per_layer;
    job().weight_bytes = one->weight_bytes * per_layer;
    if (one->weight_bytes > 0) job().integer_sums = sums_integers(*one);
    job().param_optim_bytes = job().weight_bytes + (one->state_bytes * per_layer - job().weight_bytes) * shards;
    edge_sizes();
  }

  // An integer takes eight bytes and a float32 four.
  bool sums_integers(const ReplicaProfile& one) const {
    const double weight = training_of(profile_.shape, false).bytes.weight;
    return profile_.shape.family != kDataFamily && one.gradient_bytes / one.weight_bytes * weight > 6;
  }

  void edge_sizes() {
    const double state_ratio = job().param_optim_bytes / job().param_bytes;
    for (EdgeCoefficients* edge : {&job().first, &job().last})
      edge->param_optim_bytes = edge->param_bytes * state_ratio;
    const auto reports = [](const ReplicaProfile& r) { return r.edge_gradient_bytes > 0 || r.edge_state_bytes > 0; };
    const auto* front = choose([&](const ReplicaProfile& r, int) { return first(r) && reports(r); });
    const auto* back = choose([&](const ReplicaProfile& r, int) { return last(r) && reports(r); });
    if (placed_.form.last_stage(stages()) == 0) {
      if (front) split_edges(seen_edge(*front));
      return;
    }
    for (const auto& [edge, one] : {std::pair(&job().first, front), std::pair(&job().last, back)}) {
      if (!one) continue;
      const SeenEdge seen = seen_edge(*one);
      edge->param_bytes = seen.gradients;
      edge->param_optim_bytes = seen.state;
    }
  }

  struct SeenEdge {
    double gradients = 0, state = 0;  // bytes of all TP ranks, not sharded
  };
  SeenEdge seen_edge(const ReplicaProfile& one) {
    const Stage& stage = stage_plan(one);
    const double weights = job().weight_bytes / job().param_optim_bytes;
    const double kept = job().zero1 ? weights + (1 - weights) / static_cast<double>(stage.replicas.size())
                                    : 1;  // of the state, per rank
    const double gradients = one.edge_gradient_bytes * stage.tp;
    return {gradients, one.edge_state_bytes > 0 ? one.edge_state_bytes * stage.tp / kept
                                                : gradients * job().param_optim_bytes / job().param_bytes};
  }

  // The profile sums both edges when they are on one stage. The sum is divided in the proportion of
  // the formulas (model_sizes.hpp).
  void split_edges(const SeenEdge& seen) {
    EdgeCoefficients& front = job().first;
    EdgeCoefficients& back = job().last;
    const double both = front.param_bytes + back.param_bytes;
    const double shared = std::min(front.param_bytes, back.param_bytes);
    const double part =
        seen.gradients > 0 ? seen.gradients / both : seen.state / (front.param_optim_bytes + back.param_optim_bytes);
    // Tying saves at most the smaller matrix. The edges count as tied when more than half of that is
    // missing.
    const bool tied = part * both < both - shared / 2;
    const double whole = tied ? both - shared : both;
    for (EdgeCoefficients* edge : {&front, &back}) {
      const double of_whole = edge->param_bytes / whole;
      edge->param_bytes = seen.gradients * of_whole;
      edge->param_optim_bytes = seen.state * of_whole;
    }
    job().tied_bytes =
        tied ? std::min(front.param_bytes, back.param_bytes) + std::min(front.param_optim_bytes, back.param_optim_bytes)
             : 0;
  }

  // Steps 1 to 3, for every type that the plan uses.
  void times() {
    for (std::size_t type = 0; type < job().gpu.size(); ++type) {
      const auto* one =
          choose([&](const ReplicaProfile& r, int t) { return t == static_cast<int>(type) && r.fwd > 0 && r.bwd > 0; });
      if (!one) continue;
      const Stage& stage = stage_plan(*one);
      const double comp_fwd = one->fwd - one->comm_fwd;
      // Recomputation repeats the forward pass, including its all-reduces.
      const double comp_bwd = one->bwd - (job().recompute ? 2 : 1) * one->comm_fwd;
      const double backward = comp_bwd / comp_fwd - (job().recompute ? 1 : 0);
      if (!(comp_fwd > 0) || !(backward > 0))
        throw Error("profile: " + name(*one) + ": its all-reduces take longer than the pass they are part of");
      GpuCoefficients& gpu = job().gpu[type];
      gpu.comp = comp_fwd / (samples_of_work(job(), replica_plan(*one).share, stage.tp) * load(*one).compute_layers);
      gpu.backward = backward;
      gpu.assumed_comp = gpu.assumed_backward = false;
      job().deferred = std::clamp(one->bwd_weights / comp_bwd, 0.0, 1.0);
      edge_computation(*one, static_cast<int>(type));
      if (one->optim <= 0) continue;
      gpu.optim = one->optim * stage.tp * job().param_bytes / load(*one).gradient_bytes;
      if (job().zero1) gpu.optim *= static_cast<double>(stage.replicas.size());
      gpu.assumed_optim = false;
    }
    if (std::all_of(job().gpu.begin(), job().gpu.end(), [](const GpuCoefficients& g) { return g.assumed_comp; }))
      throw Error("profile: no replica reports its forward and backward times");
  }

  // Measures the edges' computation by comparison with an inner stage, so no formula is needed.
  void edge_computation(const ReplicaProfile& compared, int type) {
    if (!inner(compared)) return;
    const double speed = job().gpu[static_cast<std::size_t>(type)].comp;
    for (std::size_t i = 0; i < profile_.replicas.size(); ++i) {
      const ReplicaProfile& one = profile_.replicas[i];
      if (types_[i] != type || inner(one) || one.fwd <= 0) continue;
      const double layers =
          (one.fwd - one.comm_fwd) / (speed * samples_of_work(job(), replica_plan(one).share, stage_plan(one).tp));
      EdgeCoefficients& edge = last(one) ? job().last : job().first;
      edge.compute_layers = std::max(0.0, layers - stage_plan(one).layers);
      edge.assumed_compute = false;
    }
  }

  // Step 5. Each stage gives the overlap of one GPU type: the type of its slowest replica, whose
  // backward pass hides the synchronization.
  void overlaps() {
    std::map<int, const ReplicaProfile*> slowest;  // by stage
    for (const ReplicaProfile& one : profile_.replicas) {
      const ReplicaProfile*& at = slowest[one.stage];
      if (!at || one.bwd > at->bwd) at = &one;
    }
    std::vector<ObservedSync> seen;
    for (const auto& [index, one] : slowest) {
      const Stage& stage = stage_plan(*one);
      if (stage.replicas.size() < 2 || !one->sync || one->bwd <= 0) continue;
      seen.push_back({index, types_[static_cast<std::size_t>(one - profile_.replicas.data())], stage.layers,
                      static_cast<int>(stage.replicas.size()), first(*one), last(*one), one->bwd, *one->sync});
    }
    infer_overlaps(result_, hardware_, placed_, seen, known_rail_, profile_.shape.family == kDataFamily);
  }

  // Step 8.
  void memory() {
    const double per_activation = nonpartitioned_activations(profile_.shape.family);
    std::vector<ObservedPeak> peaks;
    job().own_lists = own_lists_;  // what a stage held when it reported its peak
    for (const ReplicaProfile& one : profile_.replicas) {
      const Stage& stage = stage_plan(one);
      if (one.peak_bytes > 0)
        peaks.push_back({one.peak_bytes, stage.layers, replica_plan(one).share, stage.tp,
                         static_cast<int>(stage.replicas.size()), placed_.position(one.stage, job())});
    }
    if (!infer_activations(job(), peaks, per_activation, result_.remarks)) {
      job().activ_np_bytes = per_activation * job().activ_bytes;
      result_.remarks.push_back("no memory peak was reported: activations are those of the model's shape");
    }
    job().own_lists.reset();
  }

  const Hardware& hardware_;
  const Profile& profile_;
  const PlacedPlan placed_;
  const double known_rail_;
  const std::shared_ptr<const OwnLists> own_lists_;
  std::vector<int> types_;  // GPU type of each entry of profile_.replicas
  Calibration result_;
};

}  // namespace

Calibration calibrate(const Hardware& hardware, const Topology& topology, const Profile& profile,
                      const Training& training, const KnownBefore& known,
                      const std::shared_ptr<const OwnLists>& own_lists) {
  return Inversion(hardware, topology, profile, training, known, own_lists).solve();
}

}  // namespace espalier
