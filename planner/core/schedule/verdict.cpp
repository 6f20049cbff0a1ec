#include "planner/core/schedule/verdict.hpp"

#include "planner/core/schedule/payoff.hpp"

namespace espalier {
namespace {

void doubt(Player& one, Weighed& note) {
  const PrefixPlan& best = one.virtual_job->prefixes()[one.doubted.prefix];
  note.gpus = best.gpus;
  note.benefit = one.doubted.benefit;
  note.verdict = "its gain does not hold " + doubt_text(one, best.plan.sketch) + "; it waits until more is measured";
}

}  // namespace

Weighed verdict_of(Player& one, double threshold) {
  Weighed note{one.job->id, 0, one.best.benefit, threshold, {}, std::nullopt};
  if (one.best.prefix > 0) note.gpus = one.virtual_job->prefixes()[one.best.prefix].gpus;
  if (one.virtual_job->prefixes().size() <= 1) note.verdict = "there are no idle GPUs for it";
  else if (!one.doubtful.empty()) doubt(one, note);
  else if (one.best.prefix == 0 && !one.slow_placed.empty())
    note.verdict = "links between the stages would make it too slow on the idle GPUs to pay for the change";
  else if (one.best.prefix == 0) note.verdict = "no set of the idle GPUs would pay for the change";
  else note.verdict = "its best marginal benefit is below the threshold";
  note.standing = one.standing;
  return note;
}

}  // namespace espalier
