// State from another process on the node.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/handoff/state_address.hpp"
#include "torchrt/handoff/state_socket.hpp"

using namespace espalier;
using namespace espalier::torchrt;

TEST_CASE("state is served by descriptor: the same memory in another mapping") {
  const auto device = make_cpu_device();
  const auto allocation = device->allocate(8192, "espalier-test");
  const std::string address = state_address("abcdef0123456789", 1, static_cast<int>(::getpid()));
  StateServer server(address);
  CHECK_THROWS_AS(fetch_state(address, {3}), Error);
  server.offer({3}, allocation->fd(), allocation->bytes());
  server.mark(17);
  FetchedState fetched = fetch_state(address, {3});
  CHECK_THROWS_WITH_AS(fetch_state(address, {3, 1}), doctest::Contains("does not hold unit 3 of new rank 1"), Error);
  CHECK(fetched.bytes == 8192);
  CHECK(fetched.step == 17);
  const auto adopted = device->adopt(std::move(fetched.fd), 8192);
  std::strcpy(static_cast<char*>(allocation->data()), "written by the owner");
  CHECK(std::string(static_cast<char*>(adopted->data())) == "written by the owner");
  CHECK(::ftruncate(adopted->fd(), 0) != 0);  // sealed
  CHECK_THROWS_AS(device->adopt(fetch_state(address, {3}).fd, 4096), Error);
  server.offer({3, 1}, allocation->fd(), allocation->bytes());
  CHECK(fetch_state(address, {3, 1}).step == 17);
  server.withdraw({3});
  CHECK_THROWS_AS(fetch_state(address, {3}), Error);
  CHECK_THROWS_AS(StateServer{address}, Error);
}

TEST_CASE("a rank's address follows from the whole token, and from no other rank's or generation's address") {
  const std::string token = "abcdef0123456789", address = state_address(token, 2, 13);
  CHECK(address == "espalier-g2-r13-8dabd3183984d14805f8b3742a459422");
  const auto secret = [](const std::string& name) { return name.substr(name.size() - 32); };
  std::set<std::string> secrets = {secret(address)};
  for (const std::string& other : {state_address(token, 3, 13), state_address(token, 2, 1), state_address(token, 21, 3),
                                   state_address("abcdef012345678a", 2, 13)})
    CHECK(secrets.insert(secret(other)).second);
}

TEST_CASE("nobody at the address is an error") { CHECK_THROWS_AS(fetch_state("espalier-nobody-g0-r0", {}), Error); }
