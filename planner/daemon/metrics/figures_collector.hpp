// Turns the newest ClusterFigures into metric families, on the thread that answers a scrape.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <memory>
#include <mutex>
#include <vector>

#include "planner/daemon/metrics/cluster_figures.hpp"

namespace espalier {

class FiguresCollector final : public prometheus::Collectable {
 public:
  // Any thread. Swaps a pointer: neither side waits for the other's work.
  void publish(ClusterFigures figures);
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  std::shared_ptr<const ClusterFigures> newest() const;
  mutable std::mutex mutex_;  // held for a pointer's copy only
  std::shared_ptr<const ClusterFigures> figures_ = std::make_shared<ClusterFigures>();
};

}  // namespace espalier
