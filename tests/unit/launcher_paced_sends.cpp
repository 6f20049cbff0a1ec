#include "launcher/world/paced_sends.hpp"

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "launcher/world/placement.hpp"
#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

using Sends = PacedSends<ServerId>;
const ServerId kOne{"n1", 1}, kTwo{"n2", 2};

// Two servers. What each was sent, and how much of it it has not read.
struct Peers {
  wire::Loop loop;
  std::map<ServerId, std::vector<std::string>> sent;
  std::map<ServerId, std::size_t> unread;
  Sends sends{loop, [this](const ServerId& id, std::string frame) { sent[id].push_back(std::move(frame)); },
              [this](const ServerId& id) { return unread[id]; }};

  void send(const ServerId& id, const std::string& frame) {
    sends.send(id, [frame] { return frame; });
  }
  bool comes(const ServerId& id, std::size_t frames) {
    return test::until(
        loop, [&] { return sent[id].size() == frames; }, std::chrono::seconds(10));
  }
  void pass() {
    test::until(
        loop, [] { return false; }, std::chrono::milliseconds(60));
  }
};

}  // namespace

TEST_CASE("a server that has not read what it was sent gets the rest once it has, in order") {
  Peers peers;
  peers.unread[kOne] = Sends::kUnread + 1;
  peers.send(kOne, "first");
  peers.send(kOne, "second");
  peers.pass();
  CHECK(peers.sent[kOne].empty());
  peers.unread[kOne] = Sends::kUnread;
  REQUIRE(peers.comes(kOne, 2));
  CHECK(peers.sent[kOne] == std::vector<std::string>{"first", "second"});
}

TEST_CASE("a server that does not read keeps no other one waiting") {
  Peers peers;
  peers.unread[kOne] = Sends::kUnread + 1;
  peers.send(kOne, "first");
  peers.send(kTwo, "theirs");
  CHECK(peers.comes(kTwo, 1));
  CHECK(peers.sent[kOne].empty());
  peers.sends.drop(kOne);  // it is lost
  peers.unread[kOne] = 0;
  peers.pass();
  CHECK(peers.sent[kOne].empty());
}

TEST_CASE("a server whose messages were dropped gets those that come after") {
  Peers peers;
  peers.unread[kOne] = Sends::kUnread + 1;
  peers.send(kOne, "first");
  CHECK(peers.sends.waits(kOne));
  CHECK_FALSE(peers.sends.waits(kTwo));
  peers.sends.drop(kOne);
  CHECK_FALSE(peers.sends.waits(kOne));
  peers.send(kOne, "second");
  peers.send(kOne, "third");
  peers.unread[kOne] = 0;
  REQUIRE(peers.comes(kOne, 2));
  CHECK(peers.sent[kOne] == std::vector<std::string>{"second", "third"});
}

TEST_CASE("no server is sent anything while all of them together have much to read") {
  Peers peers;
  for (JobId job = 1; job <= Sends::kUnreadInAll / Sends::kUnread; ++job) {
    const ServerId id{"n3", job};
    peers.send(id, "first");
    CHECK(peers.sent[id].size() == 1);
    peers.unread[id] = Sends::kUnread;
  }
  peers.pass();
  peers.send(kOne, "theirs");
  peers.pass();
  CHECK(peers.sent[kOne].empty());
  peers.unread[{"n3", 1}] = 0;
  CHECK(peers.comes(kOne, 1));
}

TEST_CASE("a message that overtakes none is sent at once") {
  Peers peers;
  peers.send(kOne, "first");
  CHECK(peers.sent[kOne].size() == 1);
  const std::string much(Sends::kAtOnce, 'x');
  peers.send(kTwo, much);
  peers.send(kOne, "second");  // the turn's bytes are used up
  CHECK(peers.sent[kOne].size() == 1);
  CHECK(peers.comes(kOne, 2));
}
