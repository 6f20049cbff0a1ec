// suika, suika-dp, espalier, flextrain, flextrain-dp, arena-anchored: the daemon's own schedulers.
//
// The FlexTrain paper leaves these choices open:
// - Schedules are 1F1B before and after a change, where the paper searches for one in both cases.
// - It decides at events. The paper says "periodically", and not how often.
#include "planner/core/schedule/move.hpp"
#include "planner/sim/policies/policies.hpp"

namespace espalier::sim {
namespace {

class SchedulerPolicy final : public Policy {
 public:
  SchedulerPolicy(std::string name, const SchedulerOptions& options, const PolicyOptions& given)
      : name_(std::move(name)),
        options_(options),
        most_gpus_(given.most_gpus),
        migrate_gain_(given.migrate_gain),
        shares_profiles_(given.share_profiles),
        scheduler_(make_scheduler(options)) {}
  std::string name() const override { return name_; }
  // FlexTrain stops and starts from a checkpoint (§6.3: "the most naive scaling approach"), Suika copies, Espalier
  // adopts. All other costs of a redeployment are the same for all.
  Method redeployment() const override {
    if (options_.flextrain) return Method::checkpoint;
    return options_.as_printed ? Method::device : Method::adopt;
  }
  bool keeps_basic() const override { return true; }
  bool needs_coefficients() const override { return true; }
  bool shares_profiles() const override { return shares_profiles_ && !options_.as_printed && !options_.flextrain; }
  int most_gpus() const override { return most_gpus_; }
  double cooldown() const override { return options_.cooldown_seconds; }
  // The papers know no bases.
  std::optional<BaseMoves> base_moves() const override {
    if (options_.as_printed || options_.flextrain) return std::nullopt;
    return BaseMoves{&options_, migrate_gain_, options_.arena.has_value()};
  }

  std::vector<Act> decide(const SimulatedView& view) override {
    std::vector<Act> acts;
    for (Decision& decision : scheduler_->decide(view.input)) {
      const bool moves = moves_base(decision);
      acts.push_back(
          {decision.job, std::move(decision.plan), std::move(decision.reason), std::move(decision.release), 0});
      if (moves) acts.back().base = std::move(decision.acquire);
    }
    return acts;
  }

 private:
  const std::string name_;
  const SchedulerOptions options_;
  const int most_gpus_;
  const double migrate_gain_;
  const bool shares_profiles_;
  const std::unique_ptr<Scheduler> scheduler_;
};

SchedulerOptions options_of(const std::string& name, const PolicyOptions& given) {
  SchedulerOptions options = given.scheduler.value_or(SchedulerOptions{});
  options.lambda = given.lambda;
  options.as_printed = name != "espalier";
  options.data_parallel_only = name == "suika-dp";
  if (!given.scheduler) options.start_seconds = given.redeploy.start_seconds;
  if (given.objective) options.objective.kind = *given.objective;
  if (given.trade) options.trade = *given.trade;
  if (given.short_first) options.short_first = *given.short_first;
  if (!given.scheduler) options.idle_forecast.emplace();
  if (given.idle_seconds) options.idle_seconds = *given.idle_seconds, options.idle_forecast.reset();
  options.flextrain.reset();
  options.arena.reset();
  return options;
}

}  // namespace

std::unique_ptr<Policy> make_scheduler_policy(const std::string& name, const PolicyOptions& given) {
  return std::make_unique<SchedulerPolicy>(name, options_of(name, given), given);
}

std::unique_ptr<Policy> make_flextrain(const std::string& name, const PolicyOptions& given) {
  SchedulerOptions options = options_of(name, given);
  options.flextrain = given.flextrain;
  options.flextrain->elasticity = name == "flextrain-dp" ? Elasticity::pipeline_and_data : Elasticity::pipeline;
  // Until a job has been changed: the start, and the state of a model of 7B saved and loaded (16 bytes per parameter).
  options.redeploy_seconds = given.redeploy.start_seconds + 2 * 7 * 16 / given.redeploy.storage_gb_s;
  const auto known = given.redeploy.measured.find(Method::checkpoint);
  if (known != given.redeploy.measured.end()) options.redeploy_seconds = known->second.pause_seconds;
  return std::make_unique<SchedulerPolicy>(name, options, given);
}

// What planner.policy = "arena" is: Slurm's queue starts the jobs, and they keep their GPUs, unless they are movable.
std::unique_ptr<Policy> make_arena_anchored(const std::string& name, const PolicyOptions& given) {
  SchedulerOptions options = options_of(name, given);
  options.as_printed = false;
  options.arena = given.anchored;
  return std::make_unique<SchedulerPolicy>(name, options, given);
}

}  // namespace espalier::sim
