// What a login and tags cost. Not part of the tests: `unit -ns -tc='*what a login costs*'`, where munged runs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "planner/wire/client.hpp"
#include "planner/wire/framing.hpp"
#include "planner/wire/server.hpp"

using namespace espalier;
using namespace espalier::wire;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;
double microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

// The median of so many times.
template <class Act>
double median(int times, const Act& act) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    act();
    all.push_back(microseconds(start));
  }
  std::nth_element(all.begin(), all.begin() + times / 2, all.end());
  return all[static_cast<std::size_t>(times / 2)];
}

double echo(Client& client, const Frame& frame) {
  return median(500, [&] {
    client.send(frame);
    REQUIRE(client.receive(milliseconds(5000)));
  });
}

}  // namespace

TEST_CASE("what tags cost" * doctest::skip()) {
  for (const std::size_t size : {100u, 10'000u, 1'000'000u}) {
    const Frame frame = to_frame(Failed{std::string(size, 'x')});
    Framing plain, tagged, peer;
    tagged.protect({}, Side::client);
    peer.protect({}, Side::server);
    Frame heard;
    const double without = median(200, [&] { plain.decode(plain.encode(frame), heard); });
    const double with = median(200, [&] { peer.decode(tagged.encode(frame), heard); });
    std::printf("a message of %zu bytes, made and read: %.1f us without tags, %.1f us with\n", size, without, with);
  }
}

TEST_CASE("what a login costs" * doctest::skip()) {
  Loop loop;
  std::vector<ConnectionPtr> held;
  const auto take = [&](const ConnectionPtr& made) {
    made->on_frame = [&loop, raw = made.get()](const Frame& frame) {
      if (frame.type == Ready::type) loop.stop();
      else raw->send(frame);
    };
    held.push_back(made);
  };
  const auto listener = listen_tcp(loop, {{Service::worker}, 17, "0123456789abcdef", ::getuid()}, "127.0.0.1", 0, take);
  const std::string path = "/tmp/espalier-cost-" + std::to_string(::getpid()) + ".sock";
  const auto local = listen_local(loop, path, take);
  std::thread client([&] {
    const Caller caller{Service::worker, 17, "0123456789abcdef", {::getuid()}};
    const auto connect = [&] { return Client::tcp(caller, "127.0.0.1", listener->port(), milliseconds(5000)); };
    std::printf("a login: %.0f us\n", median(200, [&] { connect(); }));
    Client tcp = connect();
    Client unix_socket = Client::local(path, {::getuid()}, milliseconds(5000));
    const Frame frame = to_frame(Failed{std::string(200, 'x')});
    std::printf("there and back, 200 bytes: TCP with tags %.0f us, Unix socket without %.0f us\n", echo(tcp, frame),
                echo(unix_socket, frame));
    tcp.send(to_frame(Ready{}));
  });
  loop.run();
  client.join();
}
