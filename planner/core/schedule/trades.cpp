#include "planner/core/schedule/trades.hpp"

#include <algorithm>

#include "planner/core/schedule/idle_gpus.hpp"

namespace espalier {
namespace {

constexpr double kRestSeconds = 60, kLongestRest = 3600;
// Bounds the latency of a decision: each look runs Algorithm 1 for a taker.
constexpr int kMostTakers = 4, kMostGivers = 3;

double weight(const Player& one) { return one.turn * one.discount; }

// The supplies if `extensions` (sorted) of `job` were gone.
std::vector<Supply> freed(std::vector<Supply> supplies, const ElasticJob& job, const std::vector<JobId>& extensions) {
  for (const Holding& held : job.extensions) {
    if (!std::binary_search(extensions.begin(), extensions.end(), held.job)) continue;
    for (Supply& supply : supplies) {
      if (supply.node->name != held.node) continue;
      // The extension's CPUs, memory and lease come free with it.
      supply.gpus.insert(supply.gpus.end(), held.gpus.begin(), held.gpus.end());
      supply.free_cpus += static_cast<int>(held.gpus.size());
      supply.free_memory_mb = std::max(supply.free_memory_mb, 2L);
      supply.lease_minutes = std::max(supply.lease_minutes, 1);
    }
  }
  return supplies;
}

// The most GPUs among the prefixes whose benefit is `least` or more.
int most_used(const Payoff& payoff, const Player& taker, double least) {
  const VirtualJob& job = *taker.virtual_job;
  int most = 0;
  for (std::size_t i = 1; i < job.prefixes().size(); ++i) {
    const PrefixPlan& one = job.prefixes()[i];
    if (one.gpus <= most || !one.plan.feasible() || job.benefit_of(i) * taker.discount < least) continue;
    if (payoff.worth_its_cost(taker, job.present().ms, one.plan.ms, one.plan.sketch, one.gpus)) most = one.gpus;
  }
  return most;
}

}  // namespace

bool Trades::rested(const Player& one, double now) const {
  const auto last = last_.find(one.job->id);
  return last == last_.end() || now - last->second.time >= last->second.rest;
}

void Trades::remember(const Player& taker, const Player& giver, double now) {
  Last& last = last_[taker.job->id];
  const bool in_vain = last.taker_gpus > 0 && taker.first_gpus <= last.taker_gpus;
  last = {now, in_vain ? std::min(2 * last.rest, kLongestRest) : kRestSeconds, taker.first_gpus};
  last_[giver.job->id] = {now, kRestSeconds, 0};
}

// Of a taker for which nothing was found. Others are looked at meanwhile: the first may be jobs that nothing makes
// faster.
void Trades::rest(const Player& taker, double now) {
  Last& last = last_[taker.job->id];
  last.time = now;
  last.rest = std::max(last.rest, kRestSeconds);
}

// The largest part of the giver's extensions that the taker would use so much better. Looks at all
// of them, at half, and at the newest.
const StackTop* Trades::worth_giving(const Market& market, Player& taker, Player& giver) const {
  const auto& stack = giver.virtual_job->stack(kStackEffort);
  if (stack.empty()) return nullptr;
  const StackTop* chosen = nullptr;
  const Payoff& payoff = market.payoff;
  VirtualJob& job = *taker.virtual_job;
  const std::size_t last = stack.size() - 1;
  for (const std::size_t depth : {last, last / 2, std::size_t{0}}) {
    const StackTop& top = stack[depth];
    const IdleGpus idle(freed(market.supplies, *giver.job, top.extensions), market.site, market.input.closed);
    job.forget();
    job.explore(idle.for_job(*taker.job, job.problem().bounds), market.expand);
    taker.doubtful.clear();
    taker.slow_placed.clear();
    const ScaleOut best = payoff.best_of(taker);
    if (best.prefix == 0 || best.benefit < market.threshold) continue;
    // A benefit holds the taker's discount already.
    const double least = market.options.trade * top.benefit * weight(giver) / taker.turn;
    if (best.benefit <= least) continue;
    const PrefixPlan& plan = job.prefixes()[best.prefix];
    // The taker grows in steps, the best one first. What it never takes would lie idle.
    if (2 * most_used(payoff, taker, std::max(least, market.threshold)) < gpus_in(*giver.job, top.extensions)) continue;
    if (!payoff.holds_if_assumed(taker, plan.plan.sketch, plan.gpus)) continue;
    chosen = &top;
    break;
  }
  job.forget();
  return chosen;
}

std::vector<Decision> Trades::find(const Market& market, std::vector<Player>& players,
                                   const std::function<bool(const Player&)>& may_give) {
  std::vector<Decision> decisions;
  const double now = market.input.now;
  std::erase_if(last_, [now](const auto& entry) { return now - entry.second.time >= 2 * kLongestRest; });
  if (market.options.trade < 1 || !market.input.cluster.waiting.empty()) return decisions;
  std::vector<Player*> takers, givers;
  for (Player& one : players) {
    if (one.grown || !rested(one, now)) continue;
    if (one.grows && one.virtual_job->problem().bounds.max_gpus > one.first_gpus) takers.push_back(&one);
    if (one.job->extensions.empty() || one.job->held || !may_give(one)) continue;
    if (!one.virtual_job->stack(kStackEffort).empty()) givers.push_back(&one);
  }
  const auto first = [](const Player* a, const Player* b) {
    return std::pair(weight(*a), b->job->id) > std::pair(weight(*b), a->job->id);
  };
  std::sort(takers.begin(), takers.end(), first);
  std::sort(givers.begin(), givers.end(), first);
  const bool others = takers.size() > kMostTakers;
  if (others) takers.resize(kMostTakers);
  const Shrinking shrinking(market.options, market.input, market.site);
  for (Player* taker : takers) {
    if (!taker->grows) continue;  // it has given
    Player* giver = nullptr;
    const StackTop* top = nullptr;
    // The givers of least weight first.
    for (std::size_t back = 1; back <= std::min<std::size_t>(kMostGivers, givers.size()) && top == nullptr; ++back) {
      giver = givers[givers.size() - back];
      if (giver == taker || weight(*taker) <= market.options.trade * weight(*giver)) break;
      top = worth_giving(market, *taker, *giver);
    }
    if (top == nullptr) {
      if (others) rest(*taker, now);
      continue;
    }
    std::erase(givers, giver);
    std::erase(givers, taker);
    auto d = shrinking.shrink(*giver, top->extensions);
    if (!d) continue;
    // Not which one: the giver's user may not be allowed to see the taker's jobs.
    d->reason = "another job has less work left and gains more from GPUs of extensions: give back " +
                std::to_string(gpus_in(*giver->job, d->release)) + " GPUs, run on " +
                std::to_string(d->plan.gpu_count());
    d->candidates.front().benefit = top->benefit * giver->discount;
    giver->grows = taker->grows = false;  // the taker waits for these GPUs
    remember(*taker, *giver, now);
    decisions.push_back(std::move(*d));
  }
  return decisions;
}

}  // namespace espalier
