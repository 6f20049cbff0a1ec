#include "planner/daemon/metrics/decision_figures.hpp"

#include <cmath>

#include "planner/core/json.hpp"

namespace espalier {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kDecision{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};       // seconds
const Buckets kPause{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};        // seconds
const Buckets kChange{1, 2, 5, 10, 20, 30, 60, 120, 300};                    // seconds
const Buckets kError{0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 10};  // of the measured time

constexpr DecisionKind kKinds[] = {DecisionKind::grow, DecisionKind::shrink, DecisionKind::migrate,
                                   DecisionKind::recover, DecisionKind::start};
constexpr const char* kOutcomes[] = {"committed", "aborted", "shadow", "other"};

std::map<std::string, prometheus::Histogram*> by_kind(prometheus::Registry& registry, const char* name,
                                                      const char* help, const Buckets& buckets) {
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  std::map<std::string, prometheus::Histogram*> all;
  for (const DecisionKind kind : kKinds) all[to_string(kind)] = &family.Add({{"kind", to_string(kind)}}, buckets);
  return all;
}

prometheus::Histogram* single(prometheus::Registry& registry, const char* name, const char* help,
                              const Buckets& buckets) {
  return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

void observe(const std::map<std::string, prometheus::Histogram*>& all, DecisionKind kind, double value) {
  const auto one = all.find(to_string(kind));
  if (one != all.end() && std::isfinite(value)) one->second->Observe(std::max(0.0, value));
}

}  // namespace

std::string outcome_class(const std::string& outcome) {
  if (outcome == "committed" || outcome == "shadow") return outcome;
  return outcome.starts_with("aborted") ? "aborted" : "other";
}

DecisionFigures::DecisionFigures(prometheus::Registry& registry) {
  auto& decisions = prometheus::BuildCounter()
                        .Name("espalier_decisions_total")
                        .Help("Decisions that have ended, by kind and outcome.")
                        .Register(registry);
  for (const DecisionKind kind : kKinds)
    for (const char* outcome : kOutcomes)
      outcomes_[{to_string(kind), outcome}] = &decisions.Add({{"kind", to_string(kind)}, {"outcome", outcome}});
  reaction_ = single(registry, "espalier_reaction_seconds",
                     "From an event (GPUs released, job submitted) to the decision that it led to.", kDecision);
  deciding_ = single(registry, "espalier_decision_seconds",
                     "From the question to slurmctld to the decision on its answer.", kDecision);
  changes_ = by_kind(registry, "espalier_change_seconds", "From a decision to its outcome.", kChange);
  pauses_ = by_kind(registry, "espalier_pause_seconds", "How long training stood in a change.", kPause);
  errors_ =
      by_kind(registry, "espalier_prediction_error_ratio",
              "Error of the predicted step time of a decision's plan: |predicted - measured| / measured.", kError);
  losses_ = &prometheus::BuildCounter()
                 .Name("espalier_losses_total")
                 .Help("Generations that were lost with a process, a GPU or a node, and recovered from or not.")
                 .Register(registry)
                 .Add({});
}

void DecisionFigures::count(const DecisionRecord& record) {
  const Decision& decision = record.decision;
  const auto counter = outcomes_.find({to_string(decision.kind), outcome_class(decision.outcome)});
  if (counter != outcomes_.end()) counter->second->Increment();
}

void DecisionFigures::decided(const DecisionRecord& record) {
  const auto& moments = record.moments;
  const auto at = [&](const char* name) {
    const auto found = moments.find(name);
    return found == moments.end() ? 0.0 : found->second;
  };
  const double decided = at("decided");
  if (decided > 0 && at("seen") > 0) deciding_->Observe(std::max(0.0, decided - at("seen")));
  if (decided > 0 && at("event") > 0) reaction_->Observe(std::max(0.0, decided - at("event")));
  if (record.decision.outcome == "shadow") count(record);
}

void DecisionFigures::finished(const DecisionRecord& record) {
  count(record);
  const Decision& decision = record.decision;
  if (decision.kind == DecisionKind::recover) losses_->Increment();
  const auto finished = record.moments.find("finished"), decided = record.moments.find("decided");
  if (finished != record.moments.end() && decided != record.moments.end())
    observe(changes_, decision.kind, finished->second - decided->second);
  if (decision.outcome == "committed" && decision.kind != DecisionKind::start)
    observe(pauses_, decision.kind, decision.pause_ms / 1000);
}

void DecisionFigures::measured(const DecisionRecord& record) {
  const Decision& decision = record.decision;
  if (decision.predicted_step_seconds > 0 && decision.measured_step_seconds > 0)
    observe(
        errors_, decision.kind,
        std::abs(decision.predicted_step_seconds - decision.measured_step_seconds) / decision.measured_step_seconds);
}

}  // namespace espalier
