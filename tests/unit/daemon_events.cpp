#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "planner/daemon/events.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/event.h"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

struct Listening {
  Folder folder;
  wire::Loop loop;
  std::vector<wire::Event> heard;
  bool trust = true;
  uid_t sender = static_cast<uid_t>(-1);
  EventSockets sockets{loop, folder.file("events.sock"), 0,
                       [this](uid_t uid) {
                         sender = uid;
                         return trust;
                       },
                       [this](const wire::Event& event) { heard.push_back(event); }};

  void send(const std::string& text) {
    spdlog::set_level(spdlog::level::off);
    const wire::Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto to = wire::local_endpoint(folder.file("events.sock"));
    REQUIRE(::sendto(socket.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&to.address),
                     to.size) == static_cast<ssize_t>(text.size()));
    const auto stop = loop.after(std::chrono::milliseconds(20), [this] { loop.stop(); });
    loop.run();
  }
};

}  // namespace

TEST_CASE("an event of a trusted user is heard, and the kernel names the user") {
  Listening daemon;
  daemon.send("ESP1 gpus_released job=3 node=n1 gpus=0,1 exit=0");
  REQUIRE(daemon.heard.size() == 1);
  CHECK(daemon.heard[0].fields.at("node") == "n1");
  CHECK(daemon.sender == ::getuid());
  CHECK(daemon.sockets.dropped() == 0);
}

TEST_CASE("an event of anybody else is dropped, whatever it says") {
  Listening daemon;
  daemon.trust = false;
  daemon.send("ESP1 gpus_released job=3 node=n1 gpus=0,1 exit=0");
  CHECK(daemon.heard.empty());
  CHECK(daemon.sockets.dropped() == 1);
}

TEST_CASE("what is no event is dropped, and the next one is heard") {
  Listening daemon;
  for (const std::string& text :
       {std::string("nonsense"), std::string("ESP2 party"), std::string(ESPALIER_EVENT_MAX + 100, 'x'),
        std::string("ESP1 gpus_released job=\x01"), std::string("ESP1")})
    daemon.send(text);
  CHECK(daemon.heard.empty());
  CHECK(daemon.sockets.dropped() == 5);
  daemon.send("ESP1 job_submitted uid=1 gpus=2 nodes=1 elastic=0");
  CHECK(daemon.heard.size() == 1);
}
