// Counters and histograms of decisions. They start at zero with the daemon.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "planner/daemon/planner_observer.hpp"

namespace espalier {

// The number of series is fixed: every label has a closed set of values. What a launcher writes becomes no label.
class DecisionFigures final : public PlannerObserver {
 public:
  // `registry` must outlive this object. Its metrics may be collected on any thread.
  explicit DecisionFigures(prometheus::Registry& registry);

  void decided(const DecisionRecord& record) override;
  void finished(const DecisionRecord& record) override;
  void measured(const DecisionRecord& record) override;

 private:
  void count(const DecisionRecord& record);
  std::map<std::pair<std::string, std::string>, prometheus::Counter*> outcomes_;  // by kind and outcome
  std::map<std::string, prometheus::Histogram*> pauses_, changes_;                // by kind
  std::map<std::string, prometheus::Histogram*> errors_;                          // by kind
  prometheus::Histogram* reaction_;
  prometheus::Histogram* deciding_;
  prometheus::Counter* losses_;
};

// "committed", "aborted", "shadow" or "other".
std::string outcome_class(const std::string& outcome);

}  // namespace espalier
