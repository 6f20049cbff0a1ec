#include "planner/core/model/profiled_step.hpp"

#include <algorithm>
#include <set>

#include "planner/core/error.hpp"
#include "planner/core/model/communication_time.hpp"
#include "planner/core/model/scheduled_time.hpp"

namespace espalier {
namespace {

// One unit on one micro-batch, with its all-reduces.
struct UnitTimes {
  double forward = 0, backward = 0, weight_gradient = 0;
};

class Step {
 public:
  Step(const Hardware& hardware, const Topology& topology, const std::vector<StageProfile>& profiles)
      : hardware_(hardware), topology_(topology), profiles_(profiles), plan_(checked(profiles)) {
    placed_ = place_plan(topology, plan_);
    chunks_ = plan_.model_chunks();
    if (chunks_.size() != plan_.stages.size() * static_cast<std::size_t>(placed_.form.chunks))
      throw Error("stage profiles: the chunks of their plan lie in no way that a schedule of Espalier has");
    every_type_is_there();
  }

  ProfiledStep predict() {
    ProfiledStep step;
    const std::size_t count = plan_.stages.size();
    for (std::size_t s = 0; s < count; ++s) step.stages.push_back(stage(s));
    pipeline::Costs costs;
    for (std::size_t c = 0; c < chunks_.size(); ++c) costs.push_back(cost(c, step.stages));
    std::vector<double> after;
    double optimizer = 0;
    for (const ProfiledStage& one : step.stages) {
      after.push_back(one.sync);
      optimizer = std::max(optimizer, one.optimizer);
    }
    step.tied_ms = tied();
    step.step_ms = scheduled_time(placed_.form, static_cast<int>(count), plan_.micro_batches, costs, after) +
                   step.tied_ms + optimizer;
    return step;
  }

 private:
  static const Plan& checked(const std::vector<StageProfile>& profiles) {
    must_agree(profiles);
    const Plan& plan = profiles.front().plan;
    for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
      if (std::none_of(profiles.begin(), profiles.end(), [s](const StageProfile& one) { return one.stage == s; }))
        throw Error("stage profiles: stage " + std::to_string(s) +
                    " has none; run espalier-train --profile-plan with --stage " + std::to_string(s));
    return plan;
  }

  int type_of(std::size_t stage, const Replica& replica) const {
    try {
      return replica_class(topology_, replica).type;
    } catch (const Error& problem) {
      throw Error("stage " + std::to_string(stage) + ": " + problem.what());
    }
  }

  void every_type_is_there() const {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      std::set<int> types;
      for (const StageProfile& one : profiles_)
        if (static_cast<std::size_t>(one.stage) == s)
          types.insert(type_of(s, plan_.stages[s].replicas[static_cast<std::size_t>(one.replica)]));
      for (const Replica& replica : plan_.stages[s].replicas) {
        const int type = type_of(s, replica);
        if (types.count(type) == 0)
          throw Error("stage profiles: stage " + std::to_string(s) + " has no profile of a replica on GPUs of type " +
                      hardware_.types[static_cast<std::size_t>(type)].name +
                      "; run espalier-train --profile-plan for one of them");
      }
    }
  }

  int kind_of(const StageProfile& profile) const {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(profile.stage)];
    return replica_class(topology_, stage.replicas[static_cast<std::size_t>(profile.replica)]).kind;
  }

  double sums_ms(const StageProfile& profile, const AbsentSums& sums) const {
    const int tp = plan_.stages[static_cast<std::size_t>(profile.stage)].tp;
    return sums.count == 0 ? 0 : sums.count * tensor_sum_ms(hardware_, kind_of(profile), tp, sums.bytes / sums.count);
  }

  UnitTimes times(const StageProfile& profile, UnitKind kind) const {
    const UnitProfile* const unit = profile.unit(kind);
    if (!unit) return {};
    return {unit->forward + sums_ms(profile, unit->forward_sums),
            unit->backward + sums_ms(profile, unit->backward_sums), unit->weight_gradient};
  }

  // Of one profile, `chunk` of its stage: the order of its units is embedding, blocks, head.
  std::vector<UnitKind> kinds(std::size_t chunk) const {
    std::vector<UnitKind> units;
    if (chunk == 0) units.push_back(UnitKind::embedding);
    units.insert(units.end(), static_cast<std::size_t>(chunks_[chunk].layers), UnitKind::block);
    if (chunk + 1 == chunks_.size()) units.push_back(UnitKind::head);
    return units;
  }

  // Of the stage's slowest profiled replica. With recomputation each unit's weight gradients come right behind its
  // backward pass; only those of the chunk's first unit follow the gradient that is sent.
  pipeline::ChunkCosts cost(std::size_t chunk, const std::vector<ProfiledStage>& stages) const {
    const auto s = static_cast<std::size_t>(chunks_[chunk].stage);
    pipeline::ChunkCosts slowest{0, 0, 0, 0};
    for (const StageProfile& profile : profiles_) {
      if (static_cast<std::size_t>(profile.stage) != s) continue;
      pipeline::ChunkCosts own{0, 0, 0, 0};
      bool first = true;
      for (const UnitKind kind : kinds(chunk)) {
        const UnitTimes unit = times(profile, kind);
        own.forward += unit.forward;
        own.backward_input += unit.backward;
        (profile.recompute && !first ? own.backward_input : own.backward_weight) += unit.weight_gradient;
        first = false;
      }
      if (own.forward + own.backward_input + own.backward_weight >
          slowest.forward + slowest.backward_input + slowest.backward_weight)
        slowest = own;
    }
    if (chunk + 1 < chunks_.size()) slowest.send_forward = link(s, chunks_[chunk + 1].stage, stages);
    if (chunk > 0) slowest.send_backward = link(s, chunks_[chunk - 1].stage, stages);
    return slowest;
  }

  // Between neighbours in the pipeline the time lies with the one in front; from the last stage to the first, with the
  // last.
  double link(std::size_t from, int to, const std::vector<ProfiledStage>& stages) const {
    const auto other = static_cast<std::size_t>(to);
    if (from == other) return 0;
    const std::size_t low = std::min(from, other), high = std::max(from, other);
    return stages[high - low == 1 ? low : high].send;
  }

  ProfiledStage stage(std::size_t s) const {
    ProfiledStage slowest;
    const PlacedStage& placed = placed_.stages[s];
    const double rate = gradient_rate(hardware_, placed.shape);
    for (const StageProfile& profile : profiles_) {
      if (static_cast<std::size_t>(profile.stage) != s) continue;
      ProfiledStage own;
      double gradient_bytes = 0, weight_bytes = 0;
      for (const UnitProfile& unit : profile.units) {
        const UnitTimes one = times(profile, unit.kind);
        own.forward += unit.count * one.forward;
        own.backward += unit.count * one.backward;
        own.weight_gradient += unit.count * one.weight_gradient;
        own.sums += unit.count * (one.forward - unit.forward + one.backward - unit.backward);
        own.optimizer += unit.count * unit.optimizer;
        gradient_bytes += unit.count * unit.gradient_bytes * placed.shape.tp;
        weight_bytes += unit.count * unit.weight_bytes * placed.shape.tp;
      }
      own.gradients = gradient_bytes * rate;
      own.sync = exposed(s, profile, rate);
      // Half of an all-reduce is a gather.
      if (profile.zero1) own.optimizer += weight_bytes * rate / 2;
      own.peak_bytes = profile.peak_bytes;
      const auto work = [&](const ProfiledStage& one) {
        return plan_.micro_batches * (one.forward + one.backward + one.weight_gradient) + one.sync + one.optimizer;
      };
      if (work(own) >= work(slowest)) slowest = own;
    }
    slowest.send =
        send_ms(hardware_, profiles_.front().boundary_bytes, placed, placed_.stages[(s + 1) % placed_.stages.size()]);
    return slowest;
  }

  // The sums of the units' gradients start one after the other during the last micro-batch's backward pass, the last
  // unit's first, as each is complete; they share the link. What is left when the pass ends is exposed. Of several
  // chunks the first one ends last; the others' sums are taken to be done by then.
  double exposed(std::size_t s, const StageProfile& profile, double rate) const {
    if (rate <= 0) return 0;
    const auto first = std::find_if(chunks_.begin(), chunks_.end(),
                                    [&](const Chunk& chunk) { return static_cast<std::size_t>(chunk.stage) == s; });
    const auto chunk = static_cast<std::size_t>(first - chunks_.begin());
    const std::vector<UnitKind> units = kinds(chunk);
    // The model's first chunk sends no gradient: a unit's weights come before the other units' inputs there.
    const bool one_by_one = chunk == 0 || profile.recompute;
    const bool scatters = profile.zero1 && !bitwise(profile);
    double now = 0, link = 0;
    if (!one_by_one)
      for (const UnitKind kind : units) now += times(profile, kind).backward;
    for (auto kind = units.rbegin(); kind != units.rend(); ++kind) {
      const UnitTimes unit = times(profile, *kind);
      now += (one_by_one ? unit.backward : 0) + unit.weight_gradient;
      link = std::max(link, now) + profile.unit(*kind)->gradient_bytes * plan_.stages[s].tp * rate / (scatters ? 2 : 1);
    }
    return std::max(0.0, link - now);
  }

  // A bitwise gradient is an integer of eight bytes, and summed whole.
  static bool bitwise(const StageProfile& profile) {
    const UnitProfile& any = profile.units.front();
    return any.accumulator_bytes > any.gradient_bytes;
  }

  // The first and the last stage exchange the whole table's gradient, both ways at once.
  double tied() const {
    const auto front = static_cast<std::size_t>(chunks_.front().stage),
               back = static_cast<std::size_t>(chunks_.back().stage);
    if (front == back) return 0;
    double bytes = 0;
    for (const StageProfile& profile : profiles_) bytes = std::max(bytes, profile.tied_bytes);
    const GpuId &a = plan_.stages[front].replicas.front().gpus.front(),
                &b = plan_.stages[back].replicas.front().gpus.front();
    const int node_a = topology_.find(a.node, a.index), node_b = topology_.find(b.node, b.index);
    const auto kind = [&](int node) -> const NodeKind& {
      return hardware_.kinds[static_cast<std::size_t>(topology_.kind(node))];
    };
    const double rate = node_a == node_b
                            ? std::min(kind(node_a).dp_bandwidth, kind(node_b).dp_bandwidth)
                            : rail_bandwidth(hardware_, kind(node_a).nic_bandwidth, kind(node_b).nic_bandwidth,
                                             topology_.distance(node_a, node_b));
    return bytes / rate;
  }

  const Hardware& hardware_;
  const Topology& topology_;
  const std::vector<StageProfile>& profiles_;
  const Plan& plan_;
  PlacedPlan placed_;
  std::vector<Chunk> chunks_;
};

}  // namespace

ProfiledStep profiled_step(const Hardware& hardware, const Topology& topology,
                           const std::vector<StageProfile>& profiles) {
  return Step(hardware, topology, profiles).predict();
}

}  // namespace espalier
