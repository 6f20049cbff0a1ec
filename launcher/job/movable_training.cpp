#include "launcher/job/movable_training.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "launcher/job/holdings.hpp"
#include "launcher/job/outcomes.hpp"
#include "launcher/job/proposal_check.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/smaller_base.hpp"

namespace espalier::launcher {
namespace {
// Generations that an earlier launcher may have started without a keeper to tell. A number that it has used is not used
// again: the state in the nodes' vaults goes by these numbers.
constexpr int kUntold = 100;
}  // namespace

void MovableTraining::has_base(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
  rooms_.context.base = holdings.front().job;
  rooms_.context.anchor = holdings;
  rooms_.context.nodes = nodes;
  rooms_.gpus.has_new_base();
  callbacks_.based();
}

void MovableTraining::start_on(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
  has_base(holdings, nodes);
  callbacks_.begin();
}

void MovableTraining::take_over(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes,
                                const std::optional<wire::Continuation>& left,
                                const std::vector<SlurmJob>& extensions) {
  spdlog::info("espalier: launch: base {} of an earlier launcher is taken over", holdings.front().job);
  has_base(holdings, nodes);
  rooms_.extensions.take_over(extensions);
  if (left) {
    rooms_.program.described(left->description);
    rooms_.context.accuracy = left->accuracy;
  }
  if (!left || !left->source) {
    rooms_.extensions.release_all();
    if (left) rooms_.generations.begin_over(left->last_generation + kUntold);
    return callbacks_.begin();
  }
  rooms_.rank_servers.start();
  rooms_.generation_zero.skip();
  rooms_.reach.take_over(left->gpu_islands, left->jobs_reach);
  rooms_.generations.take_over(left->last_generation + kUntold, *left->source);
  std::vector<GpusOfPlan> plans{GpusOfPlan(left->source->plan)};
  for (const auto& earlier : left->source->earlier) plans.emplace_back(earlier.plan);
  for (const Holding& held : rooms_.extensions.holdings(false))
    if (std::none_of(plans.begin(), plans.end(), [&](const GpusOfPlan& plan) { return plan.any_of(held); }))
      rooms_.extensions.release(held.job);
  callbacks_.taken_over();
}

void MovableTraining::start_smaller(const Decision& decision) {
  std::string why = smaller_base_refusal(decision, rooms_.context);
  if (why.empty() && smaller_) why = "another smaller base has been asked for";
  try {
    if (!why.empty()) throw Error(why);
    rooms_.bases.start_smaller(decision.acquire);
    smaller_ = decision;
    spdlog::info("espalier: launch: {}", decision.reason);
  } catch (const Error& error) {
    callbacks_.report(outcome_of(rooms_.context.job, decision, std::string("aborted: ") + error.what()));
  }
}

void MovableTraining::smaller_came(const std::string& result) {
  if (!smaller_) return;
  callbacks_.report(outcome_of(rooms_.context.job, *smaller_, result));
  smaller_.reset();
}

void MovableTraining::stepped() {
  if (untold_) tell_keepers();
  rooms_.bases.before().stepped(rooms_.generations.earlier().list().empty() && base_to_leave() == 0);
}

void MovableTraining::take_second() {
  const auto holdings = rooms_.bases.second().holdings();
  if (holdings.empty()) return;
  JobContext& context = rooms_.context;
  context.nodes = rooms_.bases.second().nodes();
  // Where no node stays, the plan keeps a GPU of the base before, and leaves it in a change of its own.
  const GpusOfPlan used(rooms_.generations.plan());
  const bool leaves_later = std::any_of(context.anchor.begin(), context.anchor.end(),
                                        [&used](const Holding& held) { return used.any_of(held); });
  const std::chrono::seconds start(std::max(context.config.start_seconds, rooms_.program.start_seconds()));
  rooms_.bases.promote(leaves_later ? start : start.zero());
  context.base = rooms_.bases.current();
  context.anchor = holdings;
  rooms_.gpus.has_new_base();
  spdlog::info("espalier: launch: training is on base {} now", context.base);
}

JobId MovableTraining::base_to_leave() const {
  const auto before = rooms_.bases.before_holdings();
  if (before.empty()) return 0;
  const GpusOfPlan used(rooms_.generations.plan());
  for (const Holding& held : before)
    if (used.any_of(held)) return held.job;
  return 0;
}

void MovableTraining::base_ends(JobId base) {
  ending_base_ = base;
  save_before_base_ends();
}

void MovableTraining::save_before_base_ends() {
  if (ending_base_ == 0 || ending_base_ != rooms_.context.base) return;
  if (World* const current = rooms_.generations.current(); current != nullptr) current->send_all(wire::Checkpoint{});
}

void MovableTraining::tell_keepers() {
  untold_ = false;
  const JobContext& context = rooms_.context;
  if (!context.movable || context.base == 0) return;
  wire::Continuation now;
  now.restarts = context.restarts;
  now.number = ++told_;
  now.base = context.base;
  now.program = context.program;
  now.description = rooms_.program.told();
  now.accuracy = context.accuracy;
  now.last_generation = rooms_.generations.last_number();
  now.gpu_islands = rooms_.reach.all();
  now.jobs_reach = rooms_.reach.jobs_reach();
  if (callbacks_.phase() != JobPhase::launching)
    now.source = wire::Assign::Source{rooms_.generations.number(), rooms_.generations.plan(), true, 0,
                                      rooms_.generations.earlier().list()};
  rooms_.keepers.remember(now);
}

}  // namespace espalier::launcher
