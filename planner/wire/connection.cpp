#include "planner/wire/connection.hpp"

#include <event2/buffer.h>
#include <event2/event.h>

#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"

namespace espalier::wire {
namespace {
constexpr std::size_t kMaxOutput = 16u << 20;
constexpr std::size_t kMaxReason = 400;
constexpr Loop::Milliseconds kHandshakeTime{5000};
}  // namespace

std::shared_ptr<BufferedConnection> BufferedConnection::start(Loop& loop, Service service, Descriptor socket, Side side,
                                                              bool local, Peer peer, std::vector<uid_t> server_uids,
                                                              OnConnection on_ready,
                                                              std::function<void(const std::string&)> on_failed) {
  std::shared_ptr<BufferedConnection> self(new BufferedConnection(loop));
  self->buffer_ = bufferevent_socket_new(loop.base(), socket.get(), BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
  if (self->buffer_ == nullptr) throw Error("connection: no memory for a stream");
  socket.release();
  self->self_ = self;
  self->service_ = service;
  self->side_ = side;
  self->local_ = local;
  self->peer_ = std::move(peer);
  self->server_uids_ = std::move(server_uids);
  self->on_ready_ = std::move(on_ready);
  self->on_failed_ = std::move(on_failed);
  bufferevent_setcb(self->buffer_, on_read, on_written, on_event, self.get());
  bufferevent_enable(self->buffer_, EV_READ | EV_WRITE);
  if (local) {
    self->send(welcome());
    self->loop_.defer([self] {
      if (self->state_ == State::greeting) self->ready();
    });
    return self;
  }
  self->deadline_ = loop.after(kHandshakeTime, [raw = self.get()] { raw->lose("handshake: not finished in time"); });
  self->nonce_ = fresh_nonce();
  if (side == Side::client) self->send(client_challenge(self->nonce_));
  return self;
}

BufferedConnection::~BufferedConnection() {
  if (buffer_ != nullptr) bufferevent_free(buffer_);
}

void BufferedConnection::send(const Frame& frame) {
  if (state_ == State::closing || state_ == State::closed) return;
  const std::string bytes = encode(frame);
  evbuffer* output = bufferevent_get_output(buffer_);
  if (evbuffer_get_length(output) + bytes.size() > kMaxOutput) {
    // Not from inside the caller's loop over its own connections.
    loop_.defer([self = self_] {
      if (self) self->lose("connection: the peer does not read");
    });
    return;
  }
  bufferevent_write(buffer_, bytes.data(), bytes.size());
}

void BufferedConnection::close() {
  if (state_ == State::closing || state_ == State::closed) return;
  state_ = State::closing;
  on_frame = nullptr;
  on_closed = nullptr;
  bufferevent_disable(buffer_, EV_READ);
  // What is queued still goes out, but not for ever.
  deadline_ = loop_.after(kHandshakeTime, [raw = this] { raw->lose(""); });
  if (evbuffer_get_length(bufferevent_get_output(buffer_)) == 0)
    loop_.defer([self = self_] {
      if (self) self->lose("");
    });
}

void BufferedConnection::on_read(bufferevent*, void* raw) {
  const auto self = static_cast<BufferedConnection*>(raw)->self_;
  if (!self) return;
  try {
    while (self->state_ != State::closed && self->state_ != State::closing) {
      evbuffer* input = bufferevent_get_input(self->buffer_);
      const std::size_t size = evbuffer_get_length(input);
      if (size == 0) return;
      const std::size_t limit = self->state_ == State::ready ? kMaxFrame : kMaxStranger;
      // Linearising a partial large frame at each arrival would be quadratic: look at the header first.
      if (size >= kHeaderBytes) {
        unsigned char header[kHeaderBytes];
        evbuffer_copyout(input, header, sizeof header);
        const std::size_t body = static_cast<std::size_t>(header[4]) << 24 | static_cast<std::size_t>(header[5]) << 16 |
                                 static_cast<std::size_t>(header[6]) << 8 | header[7];
        if (body <= limit && size < kHeaderBytes + body && header[3] == kProtocolVersion && header[0] == 'E') return;
      }
      const char* bytes = reinterpret_cast<const char*>(evbuffer_pullup(input, -1));
      Frame frame;
      const auto used = decode({bytes, size}, frame, limit);
      if (!used) return;
      evbuffer_drain(input, *used);
      self->handle(frame);
    }
  } catch (const std::exception& error) {  // nothing that a peer sends may end this process
    self->refuse(std::string(error.what()).substr(0, kMaxReason));
  }
}

void BufferedConnection::refuse(const std::string& why) {
  if (state_ == State::closing || state_ == State::closed) return;
  if (side_ == Side::server) send(to_frame(Refused{why}));
  const auto failed = std::exchange(on_failed_, nullptr);
  const auto closed = on_closed;
  close();
  if (failed) failed(why);
  if (closed) closed(why);
}

void BufferedConnection::on_written(bufferevent*, void* raw) {
  const auto self = static_cast<BufferedConnection*>(raw)->self_;
  if (!self || self->state_ != State::closing) return;
  // Also called for what was written before: the refusal may have been queued since.
  if (evbuffer_get_length(bufferevent_get_output(self->buffer_)) == 0) self->lose("");
}

void BufferedConnection::on_event(bufferevent*, short what, void* raw) {
  const auto self = static_cast<BufferedConnection*>(raw)->self_;
  if (self && (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) != 0)
    self->lose(what & BEV_EVENT_EOF
                   ? "connection: closed by the peer"
                   : std::string("connection: ") + evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
}

void BufferedConnection::handle(const Frame& frame) {
  // A local peer may answer the welcome before the owner was told of it.
  if (local_ && state_ == State::greeting) ready();
  if (state_ != State::ready) return greet(frame);
  const auto callback = on_frame;  // it may replace itself
  if (callback) callback(frame);
}

void BufferedConnection::greet(const Frame& frame) {
  if (side_ == Side::server) {
    if (state_ == State::greeting) {
      send(server_identity(service_, frame, nonce_, client_nonce_));
      state_ = State::identifying;
      return;
    }
    const Credential client = check_client(service_, frame, client_nonce_, nonce_);
    peer_.uid = client.uid;
    peer_.gid = client.gid;
    send(welcome());
    return ready();
  }
  if (state_ == State::greeting) {
    send(client_identity(service_, frame, nonce_, server_uids_));
    state_ = State::identifying;
    return;
  }
  if (frame.type != "welcome") throw Error("handshake: not welcome: " + frame.body.value("reason", "no reason given"));
  ready();
}

void BufferedConnection::ready() {
  state_ = State::ready;
  deadline_.reset();
  const auto callback = std::exchange(on_ready_, nullptr);
  on_failed_ = nullptr;
  if (callback) callback(self_);
}

void BufferedConnection::lose(const std::string& why) {
  if (state_ == State::closed) return;
  const auto keep = std::exchange(self_, nullptr);
  state_ = State::closed;
  deadline_.reset();
  if (buffer_ != nullptr) {
    bufferevent_setcb(buffer_, nullptr, nullptr, nullptr, nullptr);
    bufferevent_flush(buffer_, EV_WRITE, BEV_FINISHED);
    bufferevent_free(buffer_);
    buffer_ = nullptr;
  }
  const auto failed = std::exchange(on_failed_, nullptr);
  const auto closed = std::exchange(on_closed, nullptr);
  on_frame = nullptr;
  on_ready_ = nullptr;
  if (failed) failed(why);
  if (closed) closed(why);
}

}  // namespace espalier::wire
