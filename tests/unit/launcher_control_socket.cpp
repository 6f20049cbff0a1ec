// Which keepers the control socket takes, and what it says to the others.
#include "launcher/job/control_socket.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "planner/core/error.hpp"
#include "tests/unit/launcher_line.hpp"

using namespace espalier;
using namespace espalier::launcher;
using espalier::launcher::cases::Line;

namespace {

// The launcher of movable job 7, with a base and an extension.
struct Job {
  wire::Loop loop;
  JobContext context;
  bool ending = false, superseded = false;
  std::string taken;
  std::unique_ptr<ControlSocket> socket;

  Job() {
    context.job = 7;
    context.movable = true;
    ControlSocket::Callbacks on;
    on.ending = [this] { return ending; };
    on.superseded = [this] { return superseded; };
    on.extension_keeper = [this](const wire::ConnectionPtr&, const wire::KeeperHello&) { taken += "extension "; };
    on.base_keeper = [this](const wire::ConnectionPtr&, const wire::KeeperHello&) { taken += "base "; };
    socket = std::make_unique<ControlSocket>(loop, context, "/nowhere", std::move(on));
  }
  // The types of what it is sent.
  std::string greet(bool extension) const {
    const auto line = std::make_shared<Line>();
    socket->greet_keeper(line, {20, "n2", extension, {}});
    return line->types();
  }
};

}  // namespace

TEST_CASE(
    "control socket: a launcher that ends sends the keepers of a base away, and those of extensions to their owner") {
  Job one;
  one.greet(true);
  one.greet(false);
  CHECK(one.taken == "extension base ");
  one.ending = true;
  one.greet(true);
  CHECK(one.taken == "extension base extension ");  // which tells it to give back
  CHECK(one.greet(false) == "give_back ");
}

TEST_CASE("control socket: a launcher that ends as its job has another one refuses all keepers, which are that one's") {
  Job one;
  one.ending = one.superseded = true;
  for (const bool extension : {true, false})
    CHECK_THROWS_WITH_AS(one.greet(extension), "keeper: job 7 has another launcher, which this node is for", Error);
  CHECK(one.taken == "");
}
