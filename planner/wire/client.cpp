#include "planner/wire/client.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "planner/wire/endpoint.hpp"
#include "planner/wire/framing.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/loop.hpp"
#include "planner/wire/name_lookup.hpp"

namespace espalier::wire {

using Clock = std::chrono::steady_clock;

struct Client::Stream {
  Descriptor fd;
  std::string input;
  Framing framing;

  // True when `events` came before `deadline`. False: the deadline has passed.
  bool wait(short events, Clock::time_point deadline) const {
    for (;;) {
      const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
      pollfd entry{fd.get(), events, 0};
      const int count = ::poll(&entry, 1, static_cast<int>(std::max<Milliseconds::rep>(left.count(), 0)));
      if (count > 0) return true;
      if (count == 0) return false;
      if (errno != EINTR) throw ConnectionLost(std::string("connection: poll: ") + std::strerror(errno));
    }
  }

  void write(const std::string& bytes) const {
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::send(fd.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (count > 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait(POLLOUT, deadline)) throw ConnectionLost("connection: the peer does not read");
      } else if (errno != EINTR) {
        throw ConnectionLost(std::string("connection: ") + std::strerror(errno));
      }
    }
  }

  std::optional<Frame> read(Clock::time_point deadline) {
    for (;;) {
      Frame frame;
      if (const auto used = framing.decode(input, frame)) {
        input.erase(0, *used);
        return frame;
      }
      char block[65536];
      const ssize_t count = ::recv(fd.get(), block, sizeof block, 0);
      if (count > 0) {
        input.append(block, static_cast<std::size_t>(count));
      } else if (count == 0) {
        throw ConnectionLost(input.empty() ? "connection: closed by the peer" : "connection: ended within a message");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait(POLLIN, deadline)) return std::nullopt;
      } else if (errno != EINTR) {
        throw ConnectionLost(std::string("connection: ") + std::strerror(errno));
      }
    }
  }

  Frame expect(Clock::time_point deadline, const std::string& what) {
    auto frame = read(deadline);
    if (!frame) throw Error(what + ": no answer in time");
    return std::move(*frame);
  }
};

namespace {

// Looks up the name within `timeout`, so that an unreachable name server does not block the caller.
Endpoint resolve_within(const std::string& host, std::uint16_t port, Client::Milliseconds timeout) {
  if (is_address(host)) return resolve(host, port);
  Loop loop;
  std::optional<NameLookup::Answer> answer;
  const NameLookup look_up(
      loop, [host, port] { return resolve(host, port); },
      [&](const NameLookup::Answer& found) {
        answer = found;
        loop.stop();
      });
  const Watch limit = loop.after(timeout, [&] { loop.stop(); });
  loop.run();
  if (!answer)
    throw Error("host \"" + host + "\": no answer from the name service in time; check it, or use an address");
  if (!answer->endpoint) throw Error(answer->why_not);
  return *answer->endpoint;
}

}  // namespace

Client::Client(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Client Client::tcp(Caller caller, const std::string& host, std::uint16_t port, Milliseconds timeout) {
  const std::string what = host + ":" + std::to_string(port);
  const auto deadline = Clock::now() + timeout;
  auto stream = std::make_unique<Stream>();
  const Endpoint endpoint = resolve_within(host, port, timeout);
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
  stream->fd = connect_to(endpoint, what, std::max(left, Milliseconds(1)));
  notice_loss(stream->fd.get(), 10);
  const auto login = client_login(std::move(caller), to_string(endpoint));
  for (;;) {
    const Login::Answer answer = login->answer(stream->expect(deadline, what));
    if (answer.reply) stream->write(stream->framing.encode(*answer.reply));
    if (!answer.keys) continue;
    stream->framing.protect(*answer.keys, Side::client);
    return Client(std::move(stream));
  }
}

Client Client::local(const std::string& path, const std::vector<uid_t>& server_uids, Milliseconds timeout) {
  auto stream = std::make_unique<Stream>();
  stream->fd = connect_to(local_endpoint(path), path, timeout);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(stream->fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      std::find(server_uids.begin(), server_uids.end(), peer.uid) == server_uids.end())
    throw Error(path + ": the server runs as uid " + std::to_string(peer.uid) + ", which is not trusted here");
  if (stream->expect(Clock::now() + timeout, path).type != "welcome") throw Error(path + ": not welcome");
  return Client(std::move(stream));
}

void Client::send(const Frame& frame) { stream_->write(stream_->framing.encode(frame)); }

std::optional<Frame> Client::receive(Milliseconds timeout) {
  try {
    return stream_->read(Clock::now() + timeout);
  } catch (const ConnectionLost&) {
    throw;
  } catch (const Error& error) {  // breaking the protocol counts as a loss
    throw ConnectionLost(error.what());
  }
}

int Client::fd() const { return stream_->fd.get(); }

}  // namespace espalier::wire
