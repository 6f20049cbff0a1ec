#include "planner/wire/connection.hpp"

#include <event2/buffer.h>
#include <event2/event.h>

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/thread_time.hpp"

namespace espalier::wire {
namespace {
constexpr std::size_t kMaxOutput = 16u << 20;
constexpr std::size_t kMaxReason = 400;
constexpr Loop::Milliseconds kLoginTime{5000};
constexpr int kFramesAtOnce = 4;

// Tells the owner what a frame has cost, also where decoding or handling it throws.
class Cost {
 public:
  explicit Cost(const std::function<void(double)>& tell) : tell_(tell), begin_(tell ? thread_seconds() : 0) {}
  Cost(const Cost&) = delete;
  Cost& operator=(const Cost&) = delete;
  ~Cost() {
    if (tell_) tell_(thread_seconds() - begin_);
  }

 private:
  const std::function<void(double)> tell_;  // a copy: the frame may close the connection
  const double begin_;
};
}  // namespace

std::shared_ptr<BufferedConnection> BufferedConnection::start(Loop& loop, Descriptor socket, Side side,
                                                              std::unique_ptr<Login> login, Peer peer,
                                                              OnConnection on_ready,
                                                              std::function<void(const std::string&)> on_failed,
                                                              std::shared_ptr<SideThread> munge) {
  std::shared_ptr<BufferedConnection> self(new BufferedConnection(loop));
  self->buffer_ = bufferevent_socket_new(loop.base(), socket.get(), BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
  if (self->buffer_ == nullptr) throw Error("connection: no memory for a stream");
  socket.release();
  self->self_ = self;
  self->side_ = side;
  self->login_ = std::move(login);
  self->peer_ = std::move(peer);
  self->on_ready_ = std::move(on_ready);
  self->on_failed_ = std::move(on_failed);
  self->munge_ = std::move(munge);
  bufferevent_setcb(self->buffer_, on_read, on_written, on_event, self.get());
  bufferevent_enable(self->buffer_, EV_READ | EV_WRITE);
  if (!self->login_) {
    self->send(welcome());
    self->loop_.defer([self] {
      if (self->state_ == State::greeting) self->ready();
    });
    return self;
  }
  self->deadline_ = loop.after(kLoginTime, [raw = self.get()] { raw->lose("handshake: not finished in time"); });
  if (const auto opening = self->login_->opening()) self->send(*opening);
  return self;
}

BufferedConnection::~BufferedConnection() {
  if (pending) pending->bytes -= counted_;
  if (buffer_ != nullptr) bufferevent_free(buffer_);
}

void BufferedConnection::send(const Frame& frame) {
  if (open() && !overflown_) send_encoded(encode(frame));
}

void BufferedConnection::send_encoded(std::string frame) {
  if (!open() || overflown_) return;
  const std::string bytes = framing_.encode(std::move(frame));
  evbuffer* output = bufferevent_get_output(buffer_);
  if (evbuffer_get_length(output) + bytes.size() > kMaxOutput) {
    overflown_ = true;
    // Deferred, because the caller may be looping over its connections.
    loop_.defer([self = self_] {
      if (self) self->lose("connection: the peer does not read");
    });
    return;
  }
  bufferevent_write(buffer_, bytes.data(), bytes.size());
}

void BufferedConnection::close() {
  if (!open()) return;
  state_ = State::closing;
  frame_deadline_.reset();
  on_frame = nullptr;
  on_closed = nullptr;
  bufferevent_disable(buffer_, EV_READ);
  // Queued output is still sent, but only until this deadline.
  deadline_ = loop_.after(kLoginTime, [raw = this] { raw->lose(""); });
  if (evbuffer_get_length(bufferevent_get_output(buffer_)) == 0)
    loop_.defer([self = self_] {
      if (self) self->lose("");
    });
}

void BufferedConnection::limit_frames(std::size_t most, Loop::Milliseconds within) {
  most_frame_ = most;
  frame_time_ = within;
}

void BufferedConnection::on_read(bufferevent*, void* raw) {
  const auto self = static_cast<BufferedConnection*>(raw)->self_;
  if (self && !self->more_ && !self->asking_) self->take_frames();
}

// Handles a few frames. The others wait for the loop's next turn, and nothing is read until then. A
// peer that sends too fast thereby fills the kernel's buffers, not the process's memory.
void BufferedConnection::take_frames() {
  const auto keep = self_;
  try {
    const bool paused = std::exchange(more_, false);
    for (int taken = 0; open() && !overflown_ && !asking_; ++taken) {
      if (taken == kFramesAtOnce && frame_waits()) {
        more_ = true;
        count_input();
        bufferevent_disable(buffer_, EV_READ);
        loop_.defer([keep] {
          if (keep->open()) keep->take_frames();
        });
        return;
      }
      if (!frame_waits()) break;
      if (may_take && !may_take()) return rest();
      const Cost cost(on_taken);
      Frame frame;
      if (!next_frame(frame)) break;
      handle(frame);
    }
    if (!open() || overflown_ || asking_) return;
    count_input();
    if (pending && pending->bytes > pending->most && counted_ > 0)
      throw Error("stream: too much of unfinished messages has come; send one message after the other");
    watch_unfinished();
    if (ended_) return lose(*ended_);
    if (paused) bufferevent_enable(buffer_, EV_READ);
  } catch (const std::exception& error) {  // no peer's message may end this process
    refuse(std::string(error.what()).substr(0, kMaxReason));
  }
}

// The owner calls resume(). Frames wait as they do for the loop's next turn.
void BufferedConnection::rest() {
  more_ = resting_ = true;
  frame_deadline_.reset();
  count_input();
  bufferevent_disable(buffer_, EV_READ);
}

void BufferedConnection::resume() {
  if (std::exchange(resting_, false) && open()) take_frames();
}

void BufferedConnection::count_input() {
  if (!pending) return;
  const std::size_t now = buffer_ == nullptr ? 0 : evbuffer_get_length(bufferevent_get_input(buffer_));
  pending->bytes = pending->bytes - counted_ + now;
  counted_ = now;
}

std::size_t BufferedConnection::frame_limit() const { return state_ == State::ready ? most_frame_ : kMaxStranger; }

// Whether decode() can judge the input. The header is enough to say so. Linearising a partial large
// frame at each arrival would be quadratic.
bool BufferedConnection::frame_waits() const {
  evbuffer* input = bufferevent_get_input(buffer_);
  char header[kHeaderBytes];
  const auto size = evbuffer_copyout(input, header, sizeof header);
  return framing_.judges({header, static_cast<std::size_t>(std::max<ev_ssize_t>(size, 0))}, evbuffer_get_length(input),
                         frame_limit());
}

bool BufferedConnection::next_frame(Frame& frame) {
  if (!frame_waits()) return false;
  evbuffer* input = bufferevent_get_input(buffer_);
  const std::size_t size = evbuffer_get_length(input);
  const auto used =
      framing_.decode({reinterpret_cast<const char*>(evbuffer_pullup(input, -1)), size}, frame, frame_limit());
  if (!used) return false;
  evbuffer_drain(input, *used);
  frame_deadline_.reset();
  return true;
}

void BufferedConnection::watch_unfinished() {
  if (frame_time_.count() == 0 || frame_deadline_ || evbuffer_get_length(bufferevent_get_input(buffer_)) == 0) return;
  frame_deadline_ =
      loop_.after(frame_time_, [raw = this] { raw->refuse("stream: a message was begun and not finished in time"); });
}

void BufferedConnection::refuse(const std::string& why) {
  if (!open()) return;
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
  // This callback may belong to earlier output. A refusal may have been queued since.
  if (evbuffer_get_length(bufferevent_get_output(self->buffer_)) == 0) self->lose("");
}

void BufferedConnection::on_event(bufferevent*, short what, void* raw) {
  const auto self = static_cast<BufferedConnection*>(raw)->self_;
  if (!self || (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) == 0) return;
  const bool torn = evbuffer_get_length(bufferevent_get_input(self->buffer_)) > 0 && !self->frame_waits();
  const std::string why = (what & BEV_EVENT_EOF) == 0
                              ? std::string("connection: ") + evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR())
                          : torn ? "connection: ended within a message"
                                 : "connection: closed by the peer";
  if ((self->more_ || self->asking_) && self->open()) self->ended_ = why;  // after the frames before it
  else self->lose(why);
}

void BufferedConnection::handle(const Frame& frame) {
  // A local peer may answer the welcome before the owner has been told of the connection.
  if (!login_ && state_ == State::greeting) ready();
  if (state_ != State::ready) return greet(frame);
  const auto callback = on_frame;  // the callback may replace itself
  if (callback) callback(frame);
}

// A frame of the login. MUNGE is asked, and frames wait.
void BufferedConnection::greet(const Frame& frame) {
  if (!munge_) return answered(login_->answer(frame));
  asking_ = true;
  bufferevent_disable(buffer_, EV_READ);
  const std::weak_ptr<BufferedConnection> weak = self_;
  const bool posted = munge_->post([weak, frame, login = login_]() -> std::function<void()> {
    if (weak.expired()) return nullptr;
    std::optional<Login::Answer> answer;
    std::string why;
    try {
      answer = login->answer(frame);
    } catch (const std::exception& error) {
      why = error.what();
    }
    return [weak, answer, why] {
      if (const auto self = weak.lock()) self->answered_late(answer, why);
    };
  });
  if (!posted) throw Error("handshake: too many peers at once; try again");
}

void BufferedConnection::answered_late(const std::optional<Login::Answer>& answer, const std::string& why_not) {
  const auto keep = self_;
  asking_ = false;
  if (!open()) return;
  if (!answer) return refuse(why_not.substr(0, kMaxReason));
  try {
    answered(*answer);
  } catch (const std::exception& error) {
    return refuse(std::string(error.what()).substr(0, kMaxReason));
  }
  if (!open()) return;
  bufferevent_enable(buffer_, EV_READ);
  take_frames();
}

void BufferedConnection::answered(const Login::Answer& answer) {
  if (answer.reply) send(*answer.reply);
  if (!answer.keys) return;
  framing_.protect(*answer.keys, side_);
  if (side_ == Side::server) peer_.uid = answer.uid, peer_.gid = answer.gid;
  peer_.service = answer.service;
  ready();
}

std::size_t BufferedConnection::unread() const {
  return buffer_ == nullptr ? 0 : evbuffer_get_length(bufferevent_get_output(buffer_));
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
  frame_deadline_.reset();
  if (buffer_ != nullptr) {
    bufferevent_setcb(buffer_, nullptr, nullptr, nullptr, nullptr);
    bufferevent_flush(buffer_, EV_WRITE, BEV_FINISHED);
    bufferevent_free(buffer_);
    buffer_ = nullptr;
  }
  count_input();
  const auto failed = std::exchange(on_failed_, nullptr);
  const auto closed = std::exchange(on_closed, nullptr);
  on_frame = nullptr;
  on_ready_ = nullptr;
  if (failed) failed(why);
  if (closed) closed(why);
}

}  // namespace espalier::wire
