// suika, suika-dp, espalier: the daemon's own scheduler.
#include "planner/sim/policies/policies.hpp"

namespace espalier::sim {
namespace {

class SchedulerPolicy final : public Policy {
 public:
  SchedulerPolicy(std::string name, const SchedulerOptions& options, int most_gpus)
      : name_(std::move(name)), options_(options), most_gpus_(most_gpus), scheduler_(make_suika_scheduler(options)) {}
  std::string name() const override { return name_; }
  // Suika copies, Espalier adopts. All other costs of a redeployment are the same for both.
  Method redeployment() const override { return options_.as_printed ? Method::device : Method::adopt; }
  bool keeps_basic() const override { return true; }
  bool shares_profiles() const override { return !options_.as_printed; }
  int most_gpus() const override { return most_gpus_; }
  double cooldown() const override { return options_.cooldown_seconds; }

  std::vector<Act> decide(const SimulatedView& view) override {
    std::vector<Act> acts;
    for (Decision& decision : scheduler_->decide(view.input))
      acts.push_back(
          {decision.job, std::move(decision.plan), std::move(decision.reason), std::move(decision.release), 0});
    return acts;
  }

 private:
  const std::string name_;
  const SchedulerOptions options_;
  const int most_gpus_;
  const std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace

std::unique_ptr<Policy> make_scheduler_policy(const std::string& name, const PolicyOptions& given) {
  SchedulerOptions options = given.scheduler.value_or(SchedulerOptions{});
  options.lambda = given.lambda;
  options.as_printed = name != "espalier";
  options.data_parallel_only = name == "suika-dp";
  if (!given.scheduler) options.start_seconds = given.redeploy.start_seconds;
  if (given.trade) options.trade = *given.trade;
  if (given.short_first) options.short_first = *given.short_first;
  return std::make_unique<SchedulerPolicy>(name, options, given.most_gpus);
}

}  // namespace espalier::sim
