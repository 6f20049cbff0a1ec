// Streams over the local socket: the kernel names the peer, a peer that breaks the protocol is told why and closed.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/server.hpp"

using namespace espalier;
using namespace espalier::wire;
using std::chrono::milliseconds;

namespace {

struct Echo {
  Loop loop;
  std::string path = "/tmp/espalier-test-" + std::to_string(::getpid()) + ".sock";
  std::vector<ConnectionPtr> connections;
  std::string closed_because;
  uid_t seen = static_cast<uid_t>(-1);
  std::unique_ptr<Listener> listener = listen_local(loop, path, [this](const ConnectionPtr& made) {
    seen = made->peer().uid;
    made->on_frame = [raw = made.get()](const Frame& frame) { raw->send(frame); };
    made->on_closed = [this](const std::string& why) { closed_because = why, loop.stop(); };
    connections.push_back(made);
  });
  Watch limit = loop.after(milliseconds(5000), [this] { loop.stop(); });
};

}  // namespace

TEST_CASE("a client and a server exchange frames larger than one read") {
  Echo echo;
  std::string answer;
  std::thread client([&] {
    auto stream = Client::local(echo.path, {::getuid()}, milliseconds(2000));
    stream.send(to_frame(Failed{std::string(300000, 'x')}));
    const auto frame = stream.receive(milliseconds(2000));
    if (frame) answer = from_frame<Failed>(*frame).message;
  });
  echo.loop.run();
  client.join();
  CHECK(answer.size() == 300000);
  CHECK(echo.seen == ::getuid());
  CHECK(echo.closed_because == "connection: closed by the peer");
}

TEST_CASE("a peer that does not speak the protocol is told so and closed") {
  Echo echo;
  std::string answer;
  std::thread client([&] {
    const Descriptor socket = connect_to(local_endpoint(echo.path), "test", milliseconds(1000));
    const std::string garbage = "GET / HTTP/1.1\r\n\r\n";
    if (::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) < 0) return;
    for (char block[4096];;) {
      const ssize_t count = ::recv(socket.get(), block, sizeof block, 0);
      if (count > 0) answer.append(block, static_cast<std::size_t>(count));
      if (count == 0) break;
      if (count < 0) ::usleep(1000);
    }
  });
  echo.loop.run();
  // The answer still has to leave after the loss was noticed.
  auto later = echo.loop.after(milliseconds(100), [&] { echo.loop.stop(); });
  echo.loop.run();
  client.join();
  CHECK(answer.find("not the Espalier protocol") != std::string::npos);
}

TEST_CASE("a server of another user is not trusted, one that is not there is named") {
  Echo echo;
  CHECK_THROWS_AS(Client::local(echo.path, {::getuid() + 1}, milliseconds(200)), Error);
  CHECK_THROWS_AS(Client::local("/no/such.sock", {::getuid()}, milliseconds(200)), Error);
}

TEST_CASE("a file that is no socket is not replaced") {
  Loop loop;
  const std::string path = "/tmp/espalier-test-file-" + std::to_string(::getpid());
  std::fclose(std::fopen(path.c_str(), "w"));
  CHECK_THROWS_AS(listen_local(loop, path, [](const ConnectionPtr&) {}), Error);
  std::remove(path.c_str());
}
