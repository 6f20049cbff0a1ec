// The product's connections, over the simulated network. They replace planner/wire/{listener,dialler,handshake}.cpp.
#include "planner/wire/clock.hpp"
#include "planner/wire/handshake.hpp"
#include "tests/sim/event_base.hpp"
#include "tests/sim/history.hpp"

namespace espalier::wire {

using sim::history;

namespace {

class SimListener final : public Listener {
 public:
  SimListener(sim::PartyPtr party, std::uint16_t port) : party_(std::move(party)), port_(port) {}
  ~SimListener() override { history().network.stop_listening(party_, port_); }
  SimListener(const SimListener&) = delete;
  SimListener& operator=(const SimListener&) = delete;
  std::uint16_t port() const override { return port_; }

 private:
  sim::PartyPtr party_;
  std::uint16_t port_;
};

// As planner/wire/dialler.cpp: dials again after every loss, with a growing delay.
class SimDialler final : public Dialler {
 public:
  SimDialler(Loop& loop, std::string host, std::uint16_t port, OnConnection on_connection,
             std::function<void(const std::string&)> on_unreachable)
      : loop_(loop),
        host_(std::move(host)),
        port_(port),
        on_connection_(std::move(on_connection)),
        on_unreachable_(std::move(on_unreachable)) {
    retry_ = loop_.after(Loop::Milliseconds(0), [this] { dial(); });
  }
  SimDialler(const SimDialler&) = delete;
  SimDialler& operator=(const SimDialler&) = delete;
  ~SimDialler() override {
    *alive_ = false;
    if (connection_) connection_->close();
  }
  ConnectionPtr connection() const override { return connection_; }

 private:
  static constexpr Loop::Milliseconds kFirstDelay{200}, kLastDelay{5000};

  void dial() {
    history().network.connect(
        loop_.base()->party, host_, port_, Service::planner,
        [this, alive = alive_](const sim::EndPtr& made) {
          if (*alive) connected(made);
        },
        [this, alive = alive_](const std::string& why) {
          if (*alive) failed(why);
        });
  }
  void connected(const sim::EndPtr& made) {
    connection_ = made;
    connected_at_ = steady_now();
    outage_ = false;
    on_connection_(connection_);
    connection_->on_closed = [this, alive = alive_, theirs = connection_->on_closed](const std::string& why) {
      if (!*alive) return;
      connection_.reset();
      if (steady_now() - connected_at_ > kLastDelay) delay_ = kFirstDelay;
      if (theirs) theirs(why);
      if (*alive) failed(why);
    };
  }
  void failed(const std::string& why) {
    if (!outage_ && on_unreachable_) on_unreachable_(why);
    outage_ = true;
    retry_ = loop_.after(delay_, [this] { dial(); });
    delay_ = std::min(delay_ * 2, kLastDelay);
  }

  Loop& loop_;
  std::string host_;
  std::uint16_t port_;
  OnConnection on_connection_;
  std::function<void(const std::string&)> on_unreachable_;
  ConnectionPtr connection_;
  std::chrono::steady_clock::time_point connected_at_{};
  Watch retry_;
  Loop::Milliseconds delay_ = kFirstDelay;
  bool outage_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Listener> listen_tcp(Loop& loop, Door, const std::string&, std::uint16_t port,
                                     OnConnection on_connection) {
  const auto party = loop.base()->party;
  history().network.listen(party, port, [on_connection](const sim::EndPtr& end) { on_connection(end); });
  return std::make_unique<SimListener>(party, port);
}
std::unique_ptr<Dialler> dial_tcp(Loop& loop, Caller, const std::string& host, std::uint16_t port,
                                  OnConnection on_connection,
                                  std::function<void(const std::string& why)> on_unreachable) {
  return std::make_unique<SimDialler>(loop, host, port, std::move(on_connection), std::move(on_unreachable));
}

std::string fresh_nonce() {
  std::string text;
  for (int i = 0; i < 32; ++i) text += "0123456789abcdef"[history().random.below(16)];
  return text;
}

}  // namespace espalier::wire
