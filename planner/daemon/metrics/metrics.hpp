// espalierd's metrics in Prometheus' text format, at http://ADDRESS/metrics.
//
//   Metrics metrics(loop, planner, config);   // from then on scrapes are answered
//
// Scrapes are answered by threads of prometheus-cpp's web server. They read what the loop left for them once a second,
// so that neither a scrape nor a flood of connections delays the loop. The threads have a low priority.
#pragma once

#include <cstddef>
#include <memory>

#include "planner/daemon/planner.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/loop.hpp"

namespace espalier {

class Metrics {
 public:
  // `loop` and `planner` must outlive this object, which becomes the planner's observer. An address that cannot be
  // opened is logged and nothing else: the daemon works without metrics.
  Metrics(wire::Loop& loop, Planner& planner, const wire::Config& config);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  // `job_series`: jobs with figures of their own, from now on. The address changes only with a restart.
  void configure(const wire::Config& config);
  bool open() const;
  int port() const;  // where it listens; 0: nowhere

 private:
  struct Parts;
  void refresh();
  Planner& planner_;
  std::size_t job_series_ = 0;
  std::unique_ptr<Parts> parts_;  // null: off
  wire::Watch each_second_;
};

}  // namespace espalier
