#include "launcher/job/job_signals.hpp"

#include <csignal>
#include <utility>

namespace espalier::launcher {

void JobSignals::watch(std::chrono::milliseconds heartbeat) {
  for (const int number : {SIGUSR1, SIGUSR2})
    watches_.push_back(loop_.on_signal(number, [this, number] { callbacks_.pass_on(number); }));
  watches_.push_back(loop_.every(heartbeat, [this] { callbacks_.beat(); }));
  for (const auto& [number, name] : {std::pair{SIGHUP, "SIGHUP"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}})
    watches_.push_back(loop_.on_signal(number, [this, name = std::string(name)] { callbacks_.terminate(name); }));
}

}  // namespace espalier::launcher
