#include "planner/daemon/metrics/metrics.hpp"

#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "planner/daemon/metrics/decision_figures.hpp"
#include "planner/daemon/metrics/figures_collector.hpp"

namespace espalier {
namespace {

constexpr wire::Loop::Milliseconds kPeriod{1000};

// Connections that are served, wait in the server's queue, and wait in the kernel. A flood takes
// these and no more; it may keep a scrape from being answered, and nothing else.
std::vector<std::string> server_options(const std::string& address) {
  return {"listening_ports",    address, "num_threads",    "2",  "connection_queue",  "8",
          "request_timeout_ms", "2000",  "listen_backlog", "16", "enable_keep_alive", "no"};
}

// The server's threads inherit priority and signal mask of the thread that starts them.
std::unique_ptr<prometheus::Exposer> start_server(const std::string& address, std::string& problem) {
  std::unique_ptr<prometheus::Exposer> server;
  std::thread starter([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);
    try {
      server = std::make_unique<prometheus::Exposer>(server_options(address));
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  starter.join();
  return server;
}

}  // namespace

// The server goes first, so that no thread of it reads what is gone.
struct Metrics::Parts {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  std::shared_ptr<FiguresCollector> collector = std::make_shared<FiguresCollector>();
  DecisionFigures decisions{*registry};
  std::unique_ptr<prometheus::Exposer> server;
};

Metrics::Metrics(wire::Loop& loop, Planner& planner, const wire::Config& config) : planner_(planner) {
  configure(config);
  if (config.metrics_address.empty()) return;
  auto parts = std::make_unique<Parts>();
  std::string problem;
  parts->server = start_server(config.metrics_address, problem);
  if (!parts->server) {
    spdlog::error("metrics: {} cannot be opened: {}; go on without metrics. Set [metrics] address in {} to a free one",
                  config.metrics_address, problem, config.path.empty() ? "espalier.toml" : config.path);
    return;
  }
  parts_ = std::move(parts);
  parts_->server->RegisterCollectable(parts_->registry);
  parts_->server->RegisterCollectable(parts_->collector);
  planner_.observe(&parts_->decisions);
  refresh();
  each_second_ = loop.every(kPeriod, [this] { refresh(); });
  spdlog::info("metrics: http://{}/metrics", config.metrics_address);
}

Metrics::~Metrics() { planner_.observe(nullptr); }

void Metrics::configure(const wire::Config& config) { job_series_ = static_cast<std::size_t>(config.metrics_jobs); }

bool Metrics::open() const { return parts_ != nullptr; }

int Metrics::port() const { return parts_ ? parts_->server->GetListeningPorts().front() : 0; }

void Metrics::refresh() { parts_->collector->publish(look(planner_, job_series_)); }

}  // namespace espalier
