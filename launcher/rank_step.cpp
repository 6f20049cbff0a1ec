#include "launcher/rank_step.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "launcher/launcher_address.hpp"
#include "launcher/tether.hpp"
#include "launcher/tether_rank.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/client.hpp"

namespace espalier::launcher {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void tell_launcher(int code) {
  try {
    const auto [host, port] = launcher_address();
    auto client = wire::Client::tcp(wire::Service::launcher, host, port, {::getuid()}, std::chrono::seconds(2));
    client.send(wire::StepLost{variable("ESPALIER_TOKEN"), std::atoi(variable("ESPALIER_GENERATION").c_str()),
                               std::atoi(variable("OMPI_COMM_WORLD_RANK").c_str()), code});
    client.receive(std::chrono::milliseconds(500));  // until it has read that
  } catch (const Error&) {                           // it has gone, or hangs up: that is its answer
  }
}

}  // namespace

// A rank that has lived longer has said hello, or its generation was given up: thousands that end at once do not come
// between the launcher and the next generation.
int rank(const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds start(std::atoi(variable("ESPALIER_START").c_str()));
  return tether_rank(arguments, [&](int code) {
    if (start.count() <= 0 || std::chrono::steady_clock::now() - begin < 2 * start) tell_launcher(code);
  });
}

int rank_step(const std::vector<std::string>& arguments) {
  const int code = tether(arguments);
  if (code != 0) tell_launcher(code);
  return code;
}

}  // namespace espalier::launcher
