#include "planner/core/schedule/flextrain/flextrain.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/acquire.hpp"
#include "planner/core/schedule/describe_sketch.hpp"
#include "planner/core/schedule/flextrain/scale_table.hpp"
#include "planner/core/schedule/growth_record.hpp"
#include "planner/core/schedule/idle_gpus.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/known_jobs.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/player.hpp"
#include "planner/core/schedule/shrinking.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {

double idle_probability(double rate, double speedup, double overhead_seconds) {
  return speedup > 1 ? std::exp(-rate * speedup / (speedup - 1) * overhead_seconds) : 0;
}

bool likely_to_pay(double rate, double speedup, double overhead_seconds, double least_probability) {
  return speedup > 1 && rate * speedup / (speedup - 1) * overhead_seconds < std::log(1 / least_probability);
}

namespace {

// A job in one decision.
struct Member {
  const ElasticJob* job = nullptr;
  VirtualJob* virtual_job = nullptr;
  int tp = 1, basic_gpus = 0, gpus = 0;
  double present_ms = 0;
};

class Flextrain final : public Scheduler {
 public:
  Flextrain(const SchedulerOptions& options, const FlextrainOptions& flextrain)
      : options_(options), flextrain_(flextrain) {}
  std::string name() const override { return "flextrain"; }
  const std::vector<Weighed>& weighed() const override { return weighed_; }

  std::vector<Decision> decide(const PlanningInput& input) override {
    site_ = input.site ? input.site : neutral_site(input.cluster);
    weighed_.clear();
    auto members = enter(input);
    const bool someone_waits = !input.cluster.waiting.empty();
    const WaitingPlan served = serve_waiting(input, asking(), someone_waits ? worth_of(members) : Worth{});
    std::vector<Decision> decisions = shrinks(input, members, served);
    if (!someone_waits) grow(input, members, served.supplies, decisions);
    std::sort(decisions.begin(), decisions.end(), [](const Decision& a, const Decision& b) { return a.job < b.job; });
    std::sort(weighed_.begin(), weighed_.end(), [](const Weighed& a, const Weighed& b) { return a.job < b.job; });
    return decisions;
  }

 private:
  using Worth = std::map<JobId, double>;  // by extension

  std::vector<Member> enter(const PlanningInput& input) {
    KnownJobs kept;
    std::vector<Member> members;
    for (const ElasticJob& job : input.jobs) {
      if (job.phase != JobPhase::running || !job.plan) continue;
      auto& slot = kept[job.id];
      slot = kept_or_made(known_, job, input, site_, false, books_);
      if (!slot) {
        weighed_.push_back({job.id, 0, 0, 0, "its plan cannot be scored on this cluster"});
        continue;
      }
      Member one{&job, slot.get()};
      const PlanSketch& present = slot->present().sketch;
      one.tp = present.stages.front().tp;
      for (const Holding& held : job.anchor) one.basic_gpus += static_cast<int>(held.gpus.size());
      one.gpus = present.gpus();
      one.present_ms = slot->evaluator().exact_sketch(present);
      members.push_back(one);
    }
    known_ = std::move(kept);
    return members;
  }

  // The job's GPUs as TP groups: the anchor's first node, then the rest of the anchor, then extensions.
  std::vector<Piece> held_groups(const Member& one, const std::vector<JobId>& leaving) const {
    const Site& site = one.virtual_job->site();
    std::vector<Piece> pieces;
    for (const auto* holdings : {&one.job->anchor, &one.job->extensions})
      for (const Holding& held : *holdings) {
        if (std::binary_search(leaving.begin(), leaving.end(), held.job)) continue;
        std::map<int, NodeGpus> there;  // by island
        for (const int gpu : held.gpus)
          if (const int node = site.topology.find(held.node, gpu); node >= 0)
            there.try_emplace(node, NodeGpus{node, {}}).first->second.gpus.push_back(static_cast<std::int16_t>(gpu));
        for (const auto& [node, gpus] : there)
          for (const Piece& piece : pieces_of({gpus}, site)) pieces.push_back(piece);
      }
    return tp_groups(pieces, one.tp);
  }

  std::optional<ScaleRow> best_within(const Member& one, const std::vector<Piece>& groups, int least) const {
    const int most = static_cast<int>(flextrain_.most_times * one.basic_gpus / one.tp);
    const bool data = flextrain_.elasticity == Elasticity::pipeline_and_data || data_parallel_only(*one.job);
    return groups.empty()
               ? std::nullopt
               : fastest_row(one.virtual_job->evaluator(), data ? Elasticity::pipeline_and_data : Elasticity::pipeline,
                             one.virtual_job->present().sketch, groups, least, most);
  }

  // ---- waiting jobs (§5.2)
  // "Jobs that have gained the most" give first: serve_waiting() takes the lowest worth first. A worth is above 0, so
  // that idle GPUs, which cost nothing, come before all extensions.
  Worth worth_of(const std::vector<Member>& members) const {
    Worth worth;
    for (const Member& one : members) {
      if (one.job->extensions.empty()) continue;
      std::vector<JobId> all;
      for (const Holding& held : one.job->extensions) all.push_back(held.job);
      std::sort(all.begin(), all.end());
      const auto basic = best_within(one, held_groups(one, all), 1);
      if (!basic) continue;  // it cannot run without them
      for (const JobId extension : all) worth[extension] = one.present_ms / basic->ms;
    }
    return worth;
  }
  SchedulerOptions asking() const {
    SchedulerOptions options = options_;
    options.as_printed = true;
    return options;
  }

  // A job that gives GPUs back runs on the fastest plan of what is left.
  std::vector<Decision> shrinks(const PlanningInput& input, const std::vector<Member>& members,
                                const WaitingPlan& served) const {
    std::vector<Decision> decisions;
    for (const Member& one : members) {
      const auto found = served.reclaims.find(one.job->id);
      if (found == served.reclaims.end()) continue;
      std::vector<JobId> leaving = found->second.extensions;
      const auto row = best_within(one, held_groups(one, leaving), 1);
      if (!row) continue;
      const auto held = one.virtual_job->held_without(leaving);
      auto plan = materialize(one.virtual_job->problem(), row->sketch, *one.job, held);
      if (!plan) continue;
      add_unused(*one.job, *plan, leaving);
      Decision d = decision_for(input, *one.job, DecisionKind::shrink);
      d.release = std::move(leaving);
      d.plan = std::move(*plan);
      d.reason = describe(found->second) + ": give back " + std::to_string(gpus_in(*one.job, d.release)) +
                 " GPUs, run on " + std::to_string(d.plan.gpu_count());
      predict(d, one, *row);
      decisions.push_back(std::move(d));
    }
    return decisions;
  }

  void predict(Decision& d, const Member& one, const ScaleRow& row) const {
    d.predicted_step_seconds = one.job->step_seconds * row.ms / one.present_ms;
    d.candidates.push_back({describe_sketch(row.sketch, one.virtual_job->site().topology),
                            row.gpus() - one.gpus,
                            d.predicted_step_seconds,
                            one.present_ms / row.ms,
                            {}});
  }

  // ---- growth (§5.1)
  bool may_grow(const ElasticJob& job, const PlanningInput& input) const {
    if (data_parallel_only(job) && !input.coefficients.contains(job.id)) return false;
    const auto last = input.last_change.find(job.id);
    const bool rested = last == input.last_change.end() || input.now - last->second >= options_.cooldown_seconds;
    return rested && !job.held && job.model.layers > 0 && job.step_seconds > 0;
  }

  double overhead(const ElasticJob& job, const PlanningInput& input) const {
    const auto pause = input.redeploy_seconds.find(job.id);
    return pause != input.redeploy_seconds.end() ? pause->second : options_.redeploy_seconds;
  }

  void grow(const PlanningInput& input, std::vector<Member>& members, std::vector<Supply> supplies,
            std::vector<Decision>& decisions) {
    const double rate =
        input.arrivals ? input.arrivals->rate(input.now, flextrain_.window_seconds, flextrain_.least_gpus) : 0;
    // By default the jobs with the fewest GPUs come first.
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
      return std::pair(a.gpus, a.job->id) < std::pair(b.gpus, b.job->id);
    });
    for (const Member& one : members) {
      if (!may_grow(*one.job, input)) continue;
      const IdleGpus idle(supplies, *site_, input.closed);
      if (idle.empty()) {
        weighed_.push_back({one.job->id, 0, 0, 0, "there are no idle GPUs for it"});
        continue;
      }
      if (auto d = growth(input, one, idle, rate, supplies)) decisions.push_back(std::move(*d));
    }
  }

  std::optional<Decision> growth(const PlanningInput& input, const Member& one, const IdleGpus& idle, double rate,
                                 std::vector<Supply>& supplies) {
    const auto& job = *one.job;
    const auto refuse = [&](int gpus, double speedup, const std::string& why) {
      weighed_.push_back({job.id, gpus, speedup, flextrain_.least_probability, why});
      return std::nullopt;
    };
    const Problem& problem = one.virtual_job->problem();
    const int most = std::min(static_cast<int>(flextrain_.most_times * one.basic_gpus), problem.bounds.max_gpus);
    if (most <= one.gpus) return refuse(0, 0, "it has the most GPUs that it may have");
    const auto order = affinity_order(problem.hardware, problem.topology, one.virtual_job->held(),
                                      idle.for_job(job, problem.bounds), most - one.gpus);
    auto groups = held_groups(one, {});
    const int held = static_cast<int>(groups.size());
    const auto more = cut_units(order, kMostGpusOfNode);
    std::vector<Piece> pieces;
    for (const AffinityUnit& unit : more)
      pieces.push_back({unit.node, unit.type, static_cast<std::int16_t>(unit.gpus.size())});
    for (const Piece& group : tp_groups(pieces, one.tp)) groups.push_back(group);
    const auto row = best_within(one, groups, held + 1);
    if (!row) return refuse(0, 0, "no larger plan that it may have is valid on the idle GPUs");
    const double speedup = one.present_ms / row->ms, cost = overhead(job, input);
    if (speedup < options_.least_gain) return refuse(row->gpus() - one.gpus, speedup, "no larger plan is faster");
    char text[220];
    std::snprintf(text, sizeof text, "%.3gx for %.3g s of overhead at %.3g arrivals an hour: probability %.2f", speedup,
                  cost, rate * 3600, idle_probability(rate, speedup, cost));
    if (!likely_to_pay(rate, speedup, cost, flextrain_.least_probability))
      return refuse(row->gpus() - one.gpus, speedup,
                    std::string("the GPUs may not stay idle for long enough: ") + text);
    auto plan = materialize(problem, row->sketch, job, with(one.virtual_job->held(), more));
    if (!plan) return std::nullopt;
    Decision d = decision_for(input, job, DecisionKind::grow);
    const int extra = acquire_for(job, *plan, supplies, d.acquire);
    if (extra == 0) return std::nullopt;
    d.reason = std::to_string(extra) + " idle GPUs on " + std::to_string(d.acquire.size()) + " node(s): " + text;
    add_unused(job, *plan, d.release);
    if (!d.release.empty()) d.kind = DecisionKind::migrate;
    d.plan = std::move(*plan);
    predict(d, one, *row);
    return d;
  }

  static std::vector<NodeGpus> with(std::vector<NodeGpus> held, const std::vector<AffinityUnit>& more) {
    for (const AffinityUnit& unit : more) {
      const auto at = std::lower_bound(held.begin(), held.end(), unit.node,
                                       [](const NodeGpus& one, std::int32_t node) { return one.node < node; });
      auto& gpus = (at != held.end() && at->node == unit.node ? at : held.insert(at, NodeGpus{unit.node, {}}))->gpus;
      gpus.insert(gpus.end(), unit.gpus.begin(), unit.gpus.end());
      std::sort(gpus.begin(), gpus.end());
    }
    return held;
  }

  const SchedulerOptions options_;
  const FlextrainOptions flextrain_;
  std::shared_ptr<const Site> site_;
  StageBooks books_;
  KnownJobs known_;
  std::vector<Weighed> weighed_;
};

}  // namespace

std::unique_ptr<Scheduler> make_flextrain_scheduler(const SchedulerOptions& options,
                                                    const FlextrainOptions& flextrain) {
  return std::make_unique<Flextrain>(options, flextrain);
}

}  // namespace espalier
