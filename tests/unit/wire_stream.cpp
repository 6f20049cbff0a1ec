// Streams over the local socket. The kernel names the peer. A peer that breaks the protocol is told
// why and closed.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

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
  // Gives queued output 50 ms to leave. A connection ends when its client sends nothing more.
  void settle(const Descriptor& client) {
    ::shutdown(client.get(), SHUT_WR);
    const auto later = loop.after(milliseconds(50), [this] { loop.stop(); });
    loop.run();
  }
  void instead(const OnConnection& on_connection) {
    listener.reset();
    listener = listen_local(loop, path, on_connection);
  }
};

// Sends raw bytes, so that a test can send many frames at once or half a frame. The client never
// reads the answers.
Descriptor raw_client(const Echo& echo, const std::string& bytes) {
  Descriptor socket = connect_to(local_endpoint(echo.path), "test", milliseconds(1000));
  REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  return socket;
}

std::string many(int frames) {
  std::string bytes;
  for (int i = 0; i < frames; ++i) bytes += encode(to_frame(Heartbeat{}));
  return bytes;
}

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
  // The answer still has to leave after the loss has been noticed.
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

TEST_CASE("frames that come all at once are handled a few at a time, and all before the stream's end is told") {
  Echo echo;
  int handled = 0, in_a_row = 0, most_in_a_row = 0, when_closed = -1;
  echo.instead([&](const ConnectionPtr& made) {
    made->on_frame = [&](const Frame&) {
      ++handled;
      if (++in_a_row == 1)
        echo.loop.defer([&] { most_in_a_row = std::max(most_in_a_row, std::exchange(in_a_row, 0)); });
    };
    made->on_closed = [&](const std::string&) { when_closed = handled, echo.loop.stop(); };
  });
  const auto client = raw_client(echo, many(500));
  ::shutdown(client.get(), SHUT_WR);
  echo.loop.run();
  CHECK(when_closed == 500);
  CHECK(most_in_a_row <= 8);
}

TEST_CASE("of frames behind the one that made the owner close none is handled") {
  Echo echo;
  int handled = 0;
  echo.instead([&](const ConnectionPtr& made) {
    made->on_frame = [&, raw = made.get()](const Frame&) {
      if (++handled == 6) raw->close();
    };
  });
  const auto client = raw_client(echo, many(100));
  const auto enough = echo.loop.after(milliseconds(100), [&] { echo.loop.stop(); });
  echo.loop.run();
  echo.settle(client);
  CHECK(handled == 6);
}

TEST_CASE("nothing more is worked out for a peer that does not read its answers") {
  Echo echo;
  int handled = 0;
  echo.instead([&](const ConnectionPtr& made) {
    made->on_frame = [&, raw = made.get()](const Frame&) {
      ++handled;
      raw->send(Failed{std::string(6 << 20, 'x')});
    };
    made->on_closed = [&](const std::string& why) { echo.closed_because = why, echo.loop.stop(); };
  });
  const auto client = raw_client(echo, many(100));
  echo.loop.run();
  CHECK(echo.closed_because == "connection: the peer does not read");
  CHECK(handled <= 4);  // room for two answers
}

TEST_CASE("a frame that is begun must be finished in time, where that is asked for") {
  Echo echo;
  milliseconds within{0};
  std::string bytes = many(1).substr(0, 10);
  int handled = 0;
  echo.instead([&](const ConnectionPtr& made) {
    made->limit_frames(kMaxFrame, within);
    made->on_frame = [&](const Frame&) { ++handled; };
    made->on_closed = [&](const std::string& why) { echo.closed_because = why, echo.loop.stop(); };
  });
  const auto enough = echo.loop.after(milliseconds(300), [&] { echo.loop.stop(); });
  SUBCASE("half a frame") {
    within = milliseconds(50);
    const auto client = raw_client(echo, bytes);
    echo.loop.run();
    CHECK(echo.closed_because == "stream: a message was begun and not finished in time");
    echo.settle(client);
  }
  SUBCASE("half a frame behind whole ones") {
    within = milliseconds(50);
    const auto client = raw_client(echo, many(20) + bytes);
    echo.loop.run();
    CHECK(handled == 20);
    CHECK(echo.closed_because == "stream: a message was begun and not finished in time");
    echo.settle(client);
  }
  SUBCASE("whole frames, and silence after them") {
    within = milliseconds(50);
    const auto client = raw_client(echo, many(20));
    echo.loop.run();
    CHECK(handled == 20);
    CHECK(echo.closed_because.empty());
    echo.settle(client);
  }
  SUBCASE("half a frame, no time asked for") {
    const auto client = raw_client(echo, bytes);
    echo.loop.run();
    CHECK(echo.closed_because.empty());
    echo.settle(client);
  }
}

TEST_CASE("a connection that its owner lets rest loses no frame, and is not closed for a frame that waits") {
  Echo echo;
  int handled = 0, taken = 0;
  bool may = true;
  double seconds = -1;
  ConnectionPtr link;
  echo.instead([&](const ConnectionPtr& made) {
    link = made;
    made->limit_frames(1000, milliseconds(100));
    made->may_take = [&] { return may; };
    made->on_taken = [&](double spent) { ++taken, seconds = spent; };
    made->on_frame = [&](const Frame&) { may = ++handled % 3 != 0; };
    made->on_closed = [&](const std::string& why) { echo.closed_because = why, echo.loop.stop(); };
  });
  const Descriptor client = raw_client(echo, many(8));
  const auto wait = [&](int time) {
    const auto later = echo.loop.after(milliseconds(time), [&] { echo.loop.stop(); });
    echo.loop.run();
  };
  wait(300);  // longer than a frame may take
  CHECK(handled == 3);
  CHECK(taken == 3);
  CHECK(seconds >= 0);
  CHECK(echo.closed_because.empty());
  may = true;
  link->resume();
  wait(50);
  CHECK(handled == 6);
  link->resume();  // may_take() still says no
  wait(50);
  CHECK(handled == 6);
  may = true;
  ::shutdown(client.get(), SHUT_WR);
  link->resume();
  wait(1000);
  CHECK(handled == 8);
  CHECK(echo.closed_because == "connection: closed by the peer");
}

TEST_CASE("what a refused frame has cost is told, too") {
  Echo echo;
  double seconds = -1;
  echo.instead([&](const ConnectionPtr& made) {
    made->on_taken = [&](double spent) { seconds = spent; };
    made->on_closed = [&](const std::string&) { echo.loop.stop(); };
  });
  std::string broken = many(1);
  broken.back() = '{';
  const Descriptor client = raw_client(echo, broken);
  echo.loop.run();
  CHECK(seconds >= 0);
}

TEST_CASE("unfinished frames of all connections of a user together are bounded") {
  Echo echo;
  const auto input = std::make_shared<Connection::Input>();
  input->most = 5000;
  int closed = 0;
  std::vector<ConnectionPtr> links;
  echo.instead([&](const ConnectionPtr& made) {
    made->pending = input;
    made->on_closed = [&](const std::string& why) {
      ++closed;
      CHECK(why == "stream: too much of unfinished messages has come; send one message after the other");
    };
    links.push_back(made);
  });
  std::string half = encode(to_frame(Query{"x", Json{{"text", std::string(4000, 'x')}}}));
  half.resize(half.size() / 2);  // some 2,000 bytes
  std::vector<Descriptor> clients;
  const auto wait = [&] {
    const auto later = echo.loop.after(milliseconds(50), [&] { echo.loop.stop(); });
    echo.loop.run();
  };
  for (int i = 0; i < 2; ++i) clients.push_back(raw_client(echo, half));
  wait();
  CHECK(closed == 0);
  CHECK(input->bytes == 2 * half.size());
  clients.push_back(raw_client(echo, half));
  wait();
  CHECK(closed == 1);
  CHECK(input->bytes == 2 * half.size());
  clients.clear();
  links.clear();
}

TEST_CASE("a frame larger than the owner takes closes the connection before it has arrived") {
  Echo echo;
  echo.instead([&](const ConnectionPtr& made) {
    made->limit_frames(1000, milliseconds(0));
    made->on_frame = [](const Frame&) {};
    made->on_closed = [&](const std::string& why) { echo.closed_because = why, echo.loop.stop(); };
  });
  const auto client = raw_client(echo, encode(to_frame(Failed{std::string(2000, 'x')})).substr(0, 100));
  echo.loop.run();
  CHECK(echo.closed_because.find("larger than allowed") != std::string::npos);
  echo.settle(client);
}
