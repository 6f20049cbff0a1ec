#include "torchrt/profile_stage.hpp"

#include <algorithm>
#include <map>

#include "planner/core/error.hpp"
#include "torchrt/layout.hpp"
#include "torchrt/model/units.hpp"
#include "torchrt/reported_shape.hpp"
#include "torchrt/schedule_options.hpp"

namespace espalier::torchrt {

namespace {

class StageRun {
 public:
  StageRun(const Config& config, Plan plan, const StageChoice& choice, Device& device)
      : config_(config), plan_(std::move(plan)), device_(device) {
    if (plan_.global_batch != config.training.global_batch)
      throw Error("plan: has a global batch of " + std::to_string(plan_.global_batch) + ", " + config.path + " says " +
                  std::to_string(config.training.global_batch) + "; the global batch never changes");
    if (config.model.mtp_layers > 0)
      throw Error("--profile-plan: " + config.path + ": a model with MTP modules is measured only while it trains; " +
                  "set model.mtp_layers = 0 to measure the model without them");
    layout_ = make_layout(plan_, config.model.blocks());
    const ScheduleOptions options = schedule_options(config, plan_);
    work_ = order_of_work(layout_, options);
    if (plan_.schedule.empty()) plan_.schedule = options.name;
    for (const StageLayout& stage : layout_.stages) unit_spec(config.model, 1, stage.tp, 0);
    if (config.device.imitated() && device.kind() != DeviceKind::cpu)
      throw Error("[device]: slows a CPU down and is not for GPUs; remove it");
    stage_ = choice.stage;
    const int stages = static_cast<int>(plan_.stages.size());
    if (stage_ < 0 || stage_ >= stages)
      throw Error("--stage: is " + std::to_string(stage_) + "; the plan has the stages 0 to " +
                  std::to_string(stages - 1));
    const std::vector<Replica>& replicas = plan_.stages[static_cast<std::size_t>(stage_)].replicas;
    if (choice.replica && (*choice.replica < 0 || static_cast<std::size_t>(*choice.replica) >= replicas.size()))
      throw Error("--replica: is " + std::to_string(*choice.replica) + "; stage " + std::to_string(stage_) +
                  " has the replicas 0 to " + std::to_string(replicas.size() - 1));
    const auto largest = std::max_element(replicas.begin(), replicas.end(),
                                          [](const Replica& a, const Replica& b) { return a.share < b.share; });
    replica_ = choice.replica.value_or(static_cast<int>(largest - replicas.begin()));
    const StageLayout& place = layout_.stages[static_cast<std::size_t>(stage_)];
    self_ = layout_.ranks[static_cast<std::size_t>(place.rank(replica_, 0))];
  }

  StageProfile measure(const UnitRounds& rounds) {
    StageProfile profile;
    profile.plan = plan_;
    profile.stage = stage_;
    profile.replica = replica_;
    profile.shape = reported_shape(config_);
    profile.recompute = config_.training.recompute;
    profile.zero1 = config_.training.zero1;
    profile.warmup = rounds.warmup;
    profile.steps = rounds.timed;
    const int layers = plan_.stages[static_cast<std::size_t>(stage_)].layers;
    double shared = 0;
    for (const UnitKind kind : kUnitKinds) {
      const int count = kind == UnitKind::block       ? layers
                        : kind == UnitKind::embedding ? self_.has_embedding
                                                      : self_.has_head;
      if (count == 0) continue;
      const MeasuredUnit measured =
          measure_unit(config_, device_, {kind, self_.tp, self_.samples, self_.replicas}, rounds);
      profile.units.push_back(measured.profile);
      profile.units.back().count = count;
      profile.steps = std::min(profile.steps, measured.timed);
      profile.device_seconds += measured.seconds;
      shared = std::max(shared, measured.shared_bytes);
    }
    boundaries(profile);
    memory(profile, shared);
    profile.not_measured = not_measured();
    return profile;
  }

 private:
  double activation_bytes() const {
    return static_cast<double>(size_of(config_.training.dtype)) * config_.model.sequence * config_.model.hidden;
  }

  void boundaries(StageProfile& profile) const {
    const int last = static_cast<int>(layout_.chunks.size()) - 1;
    const auto elsewhere = [&](int chunk) {
      return chunk >= 0 && chunk <= last && layout_.chunks[static_cast<std::size_t>(chunk)].stage != stage_;
    };
    profile.boundary_bytes = activation_bytes();
    for (const int chunk : self_.chunks) {
      if (elsewhere(chunk - 1)) profile.input_bytes += self_.samples * activation_bytes();
      if (elsewhere(chunk + 1)) profile.output_bytes += self_.samples * activation_bytes();
    }
    const bool apart = layout_.chunks.front().stage != layout_.chunks.back().stage;
    if (config_.model.tied_embeddings && apart && (self_.has_embedding || self_.has_head))
      profile.tied_bytes = static_cast<double>(sizeof(float)) * config_.model.vocabulary * config_.model.hidden;
  }

  // Of one micro-batch in a chunk. The output of one unit is the input of the next, and so are their gradients.
  struct ChunkBytes {
    double held = 0, pending = 0;
  };
  ChunkBytes bytes_of(const StageProfile& profile, const ChunkLayout& chunk) const {
    ChunkBytes bytes;
    for (int unit = chunk.first_unit; unit <= chunk.last_unit(); ++unit) {
      bytes.held += profile.unit(kind_of(unit))->held_bytes;
      bytes.pending += profile.unit(kind_of(unit))->pending_bytes;
    }
    const double shared = (chunk.units - 1) * self_.samples * activation_bytes();
    return {std::max(0.0, bytes.held - shared), std::max(0.0, bytes.pending - shared)};
  }

  // The most that stands at once while the stage does its list.
  void memory(StageProfile& profile, double shared) const {
    double working = 0;
    for (const UnitProfile& unit : profile.units) {
      profile.static_bytes += unit.count * (unit.state_bytes + unit.accumulator_bytes);
      working = std::max(working, unit.working_bytes);
    }
    std::map<int, ChunkBytes> bytes;
    for (const int chunk : self_.chunks)
      bytes[chunk] = bytes_of(profile, layout_.chunks[static_cast<std::size_t>(chunk)]);
    double now = 0, most = 0;
    for (const pipeline::Action& action : work_.actions[static_cast<std::size_t>(stage_)]) {
      const ChunkBytes& chunk = bytes.at(action.chunk);
      const bool whole = action.kind == pipeline::Compute::backward;
      if (action.kind == pipeline::Compute::forward) now += chunk.held;
      if (whole || action.kind == pipeline::Compute::backward_input) now += chunk.pending - chunk.held;
      most = std::max(most, now);
      if (whole || action.kind == pipeline::Compute::backward_weight) now -= chunk.pending;
    }
    profile.peak_bytes = profile.static_bytes + shared + most + working;
  }

  UnitKind kind_of(int unit) const {
    return unit == 0 ? UnitKind::embedding : unit == layout_.units - 1 ? UnitKind::head : UnitKind::block;
  }

  std::vector<std::string> not_measured() const {
    std::vector<std::string> list;
    if (self_.tp > 1) list.push_back("tensor-parallel sums: counted, not run");
    if (self_.replicas > 1) list.push_back("sums of gradients over the replicas");
    if (self_.replicas > 1 && config_.training.zero1) list.push_back("gathering of parameters");
    if (layout_.stages.size() > 1) list.push_back("messages between stages");
    if (config_.model.tied_embeddings && layout_.stages.size() > 1)
      list.push_back("exchange of the tied table's gradient");
    list.push_back("the ranks' agreement at the end of a step");
    return list;
  }

  const Config& config_;
  Plan plan_;
  Device& device_;
  Layout layout_;
  pipeline::Schedule work_;
  int stage_ = 0, replica_ = 0;
  RankLayout self_;
};

}  // namespace

StageProfile profile_stage(const Config& config, Plan plan, const StageChoice& choice, Device& device,
                           const UnitRounds& rounds) {
  return StageRun(config, std::move(plan), choice, device).measure(rounds);
}

}  // namespace espalier::torchrt
