#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "planner/core/error.hpp"
#include "planner/wire/connection.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/name_lookup.hpp"

namespace espalier::wire {
namespace {

class RetryingDialler final : public Dialler {
 public:
  RetryingDialler(Loop& loop, Caller caller, std::string host, std::uint16_t port, OnConnection on_connection,
                  std::function<void(const std::string&)> on_unreachable)
      : loop_(loop),
        caller_(std::move(caller)),
        host_(std::move(host)),
        port_(port),
        on_connection_(std::move(on_connection)),
        on_unreachable_(std::move(on_unreachable)) {
    retry_ = loop_.after(Loop::Milliseconds(0), [this] { dial(); });
  }
  RetryingDialler(const RetryingDialler&) = delete;
  RetryingDialler& operator=(const RetryingDialler&) = delete;
  ~RetryingDialler() override {
    *alive_ = false;
    if (connection_) connection_->close();
    if (pending_) pending_->close();
  }
  ConnectionPtr connection() const override { return connection_; }

 private:
  static constexpr Loop::Milliseconds kFirstDelay{200}, kLastDelay{5000}, kLookUp{2000};
  static constexpr std::size_t kMostQuestions = 2;  // of one connection at a time

  // Looks up the name for each attempt, because the server may have moved. Until an answer comes,
  // the last known address is used.
  void dial() {
    try {
      if (!lookup_)
        lookup_.emplace(
            loop_, [host = host_, port = port_] { return resolve(host, port); },
            [this](const NameLookup::Answer& answer) { looked_up(answer); });
      retry_ = loop_.after(kLookUp, [this] {
        if (endpoint_) connect();
        else failed("no answer from the name server");
      });
    } catch (const Error& error) {
      failed(error.what());
    }
  }

  void looked_up(const NameLookup::Answer& answer) {
    lookup_.reset();
    if (answer.endpoint) endpoint_ = answer.endpoint;
    if (connection_ || pending_) return;  // an attempt with the last known address is under way
    if (endpoint_) connect();
    else failed(answer.why_not);
  }

  void connect() {
    retry_.reset();
    try {
      const Endpoint& endpoint = *endpoint_;
      Descriptor socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) throw Error(std::string("no socket: ") + std::strerror(errno));
      if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) != 0 &&
          errno != EINPROGRESS)
        throw Error(std::string("cannot connect: ") + std::strerror(errno));
      notice_loss(socket.get(), 10);
      // The handshake's deadline also covers a connect that never completes.
      pending_ = BufferedConnection::start(
          loop_, std::move(socket), Side::client, client_login(caller_, to_string(endpoint)),
          {0, 0, to_string(endpoint)},
          [this, alive = alive_](ConnectionPtr made) {
            if (*alive) connected(std::move(made));
          },
          [this, alive = alive_](const std::string& why) {
            if (*alive) failed(why);
          },
          munge_);
    } catch (const Error& error) {
      failed(error.what());
    }
  }

  void connected(ConnectionPtr made) {
    pending_.reset();
    connection_ = std::move(made);
    connected_at_ = std::chrono::steady_clock::now();
    outage_ = false;
    on_connection_(connection_);
    // Set after the owner's own callback, because a lost connection must also start the next
    // attempt.
    connection_->on_closed = [this, alive = alive_, theirs = connection_->on_closed](const std::string& why) {
      if (!*alive) return;
      connection_.reset();
      // A connection that was closed soon (the planner refuses it) keeps the longer delay.
      if (std::chrono::steady_clock::now() - connected_at_ > kLastDelay) delay_ = kFirstDelay;
      if (theirs) theirs(why);
      if (*alive) failed(why);
    };
  }

  void failed(const std::string& why) {
    pending_.reset();
    if (!outage_) {
      outage_ = true;
      if (on_unreachable_) on_unreachable_(host_ + ":" + std::to_string(port_) + ": " + why);
    }
    // By chance, so that the launchers of a cluster do not all come at once when espalierd is back.
    const double share = std::uniform_real_distribution(0.5, 1.0)(random_);
    retry_ =
        loop_.after(Loop::Milliseconds(std::lround(share * static_cast<double>(delay_.count()))), [this] { dial(); });
    delay_ = std::min(delay_ * 2, kLastDelay);
  }

  Loop& loop_;
  Caller caller_;
  std::string host_;
  std::uint16_t port_;
  OnConnection on_connection_;
  std::function<void(const std::string&)> on_unreachable_;
  ConnectionPtr connection_;
  std::shared_ptr<BufferedConnection> pending_;
  std::shared_ptr<SideThread> munge_ = std::make_shared<SideThread>(loop_, kMostQuestions);
  std::optional<NameLookup> lookup_;
  std::optional<Endpoint> endpoint_;  // the last address that was found
  std::chrono::steady_clock::time_point connected_at_{};
  Watch retry_;
  Loop::Milliseconds delay_ = kFirstDelay;
  std::minstd_rand random_{std::random_device()()};
  bool outage_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Dialler> dial_tcp(Loop& loop, Caller caller, const std::string& host, std::uint16_t port,
                                  OnConnection on_connection,
                                  std::function<void(const std::string& why)> on_unreachable) {
  return std::make_unique<RetryingDialler>(loop, std::move(caller), host, port, std::move(on_connection),
                                           std::move(on_unreachable));
}

}  // namespace espalier::wire
