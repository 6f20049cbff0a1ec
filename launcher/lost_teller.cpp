#include "launcher/lost_teller.hpp"

#include <unistd.h>

#include <cstdlib>

#include "launcher/launcher_address.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/client.hpp"

namespace espalier::launcher {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name) { return std::atoi(variable(name).c_str()); }

template <class Message>
void tell(const Message& message) {
  try {
    const auto [host, port] = launcher_address();
    auto client = wire::Client::tcp(wire::Service::launcher, host, port, {::getuid()}, std::chrono::seconds(2));
    client.send(message);
    client.receive(std::chrono::milliseconds(500));  // until it has read that
  } catch (const Error&) {                           // it has gone, or hangs up: that is its answer
  }
}

}  // namespace

bool LostTeller::is_of_interest() const {
  const std::chrono::seconds start(number("ESPALIER_START"));
  return number("ESPALIER_GENERATION") > 0 &&
         (start.count() <= 0 || std::chrono::steady_clock::now() - begin_ < 2 * start);
}

void LostTeller::rank(int code) const {
  if (is_of_interest())
    tell(wire::StepLost{variable("ESPALIER_TOKEN"), number("ESPALIER_GENERATION"), number("OMPI_COMM_WORLD_RANK"),
                        code});
}

void LostTeller::node(const std::string& name, int code) const {
  if (is_of_interest()) tell(wire::NodeLost{variable("ESPALIER_TOKEN"), number("ESPALIER_GENERATION"), name, code});
}

}  // namespace espalier::launcher
