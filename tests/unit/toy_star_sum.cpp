// Sums by way of process 0, of the toy that `espalier doctor --run` starts.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"
#include "planner/wire/frame_tags.hpp"
#include "torchrt/toy/star_sum.hpp"

using namespace espalier;
using torchrt::toy::StarSum;

namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int free_port() {
  const wire::Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return ntohs(address.sin_port);
}

const std::string kSecret = "the job's token:0";

std::future<std::vector<double>> process(int rank, int size, int port, std::vector<double> values,
                                         const std::string& secret = kSecret) {
  return std::async(std::launch::async, [=]() mutable {
    StarSum sum(rank, size, "127.0.0.1", std::to_string(port), secret);
    for (int again = 0; again < 2; ++again)
      if (!sum(values.data(), static_cast<int>(values.size()))) values.clear();
    return values;
  });
}

}  // namespace

TEST_CASE("each process has the sum, in whatever order they come") {
  const int port = free_port();
  auto two = process(2, 3, port, {100, 4}), one = process(1, 3, port, {10, 2}), zero = process(0, 3, port, {1, 1});
  const std::vector<double> twice{333, 21};  // the sum of the sums
  CHECK(zero.get() == twice);
  CHECK(one.get() == twice);
  CHECK(two.get() == twice);
}

TEST_CASE("one process alone has its own numbers, and listens nowhere") {
  StarSum sum(0, 1, "nowhere.invalid", "0", kSecret);
  double value = 7;
  CHECK(sum(&value, 1));
  CHECK(value == 7);
}

TEST_CASE(
    "a stranger takes no process's place: who says no rank that is awaited, does not know the secret, or says "
    "nothing") {
  const int port = free_port();
  auto zero = process(0, 2, port, {1});
  std::vector<wire::Descriptor> strangers;
  const auto connects = [&] {
    const sockaddr_in address = loopback(port);
    for (int tries = 0; tries < 1000; ++tries) {
      strangers.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
      if (::connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  for (const std::int32_t rank : {0, 2, -1, 1}) {
    REQUIRE(connects());
    std::string hello(4 + wire::kKeyBytes, 'x');
    std::memcpy(hello.data(), &rank, sizeof rank);
    REQUIRE(::send(strangers.back().get(), hello.data(), hello.size(), 0) == static_cast<ssize_t>(hello.size()));
  }
  for (int silent = 0; silent < 40; ++silent) REQUIRE(connects());
  auto one = process(1, 2, port, {10});
  CHECK(zero.get() == std::vector<double>{22});
  CHECK(one.get() == std::vector<double>{22});
}

TEST_CASE("a process that is gone is told of, and an address that is none is refused in words") {
  const int port = free_port();
  auto zero = process(0, 2, port, {1});
  { StarSum leaves(1, 2, "127.0.0.1", std::to_string(port), kSecret); }
  CHECK(zero.get().empty());
  CHECK_THROWS_WITH_AS(StarSum(0, 2, "not an address", "1", kSecret), doctest::Contains("check the node's address"),
                       Error);
}

TEST_CASE("a process does not take a stranger for process 0, and no wait is without end") {
  using std::chrono::milliseconds;
  const std::string port = std::to_string(free_port());
  auto stranger = std::async(std::launch::async, [&] {
    try {
      StarSum(0, 2, "127.0.0.1", port, "another secret", milliseconds(500));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  CHECK_THROWS_WITH_AS(StarSum(1, 2, "127.0.0.1", port, kSecret, milliseconds(500)),
                       doctest::Contains("process 0 is not at"), Error);
  CHECK(stranger.get().find("1 processes did not connect") != std::string::npos);
  // The other one stands still in the middle of a sum.
  const std::string next = std::to_string(free_port());
  auto silent =
      std::async(std::launch::async, [&] { return std::make_unique<StarSum>(1, 2, "127.0.0.1", next, kSecret); });
  StarSum zero(0, 2, "127.0.0.1", next, kSecret, milliseconds(500));
  const auto held = silent.get();
  double value = 1;
  CHECK_FALSE(zero(&value, 1));
}
