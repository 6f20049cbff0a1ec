// Sums by way of process 0, of the toy that `espalier doctor --run` starts.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"
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

std::future<std::vector<double>> process(int rank, int size, int port, std::vector<double> values) {
  return std::async(std::launch::async, [=]() mutable {
    StarSum sum(rank, size, "127.0.0.1", std::to_string(port));
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
  StarSum sum(0, 1, "nowhere.invalid", "0");
  double value = 7;
  CHECK(sum(&value, 1));
  CHECK(value == 7);
}

TEST_CASE("who says no rank that is awaited takes no process's place") {
  const int port = free_port();
  auto zero = process(0, 2, port, {1});
  for (const std::int32_t rank : {0, 2, -1}) {
    const wire::Descriptor stranger(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in address = loopback(port);
    while (::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    }
    REQUIRE(::send(stranger.get(), &rank, sizeof rank, 0) == sizeof rank);
  }
  auto one = process(1, 2, port, {10});
  CHECK(zero.get() == std::vector<double>{22});
  CHECK(one.get() == std::vector<double>{22});
}

TEST_CASE("a process that is gone is told of, and an address that is none is refused in words") {
  const int port = free_port();
  auto zero = process(0, 2, port, {1});
  { StarSum leaves(1, 2, "127.0.0.1", std::to_string(port)); }
  CHECK(zero.get().empty());
  CHECK_THROWS_WITH_AS(StarSum(0, 2, "not an address", "1"), doctest::Contains("check the node's address"), Error);
}
