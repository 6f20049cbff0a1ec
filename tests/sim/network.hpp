// TCP between parties. Frames arrive in order and with a delay. Broken links and dead nodes cut connections. A
// connection is refused if no party listens.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "planner/wire/server.hpp"
#include "tests/sim/timeline.hpp"

namespace espalier::sim {

class Network;

// One end of a connection.
class End final : public wire::Connection {
 public:
  End(Network& network, PartyPtr party, wire::Peer peer)
      : network_(network), party_(std::move(party)), peer_(std::move(peer)) {}
  const wire::Peer& peer() const override { return peer_; }
  void send(const wire::Frame& frame) override;
  using wire::Connection::send;
  void close() override;
  void limit_frames(std::size_t, std::chrono::milliseconds) override {}  // frames arrive whole here
  void lose(const std::string& why);                                     // the connection is lost, as TCP would notice
  bool open() const { return open_; }
  const PartyPtr& party() const { return party_; }

 private:
  friend class Network;
  void pump();
  void arrive();
  void drop();
  Network& network_;
  PartyPtr party_;
  wire::Peer peer_;
  std::weak_ptr<End> other_;
  // Keeps this end alive until it is closed, as the product's connections do.
  std::shared_ptr<End> self_;
  std::deque<wire::Frame> incoming_;  // frames on their way here
  bool open_ = true, pumping_ = false;
  bool ends_ = false;  // the other end was closed: the stream ends after `incoming_`
  Seconds blocked_since_ = -1;
};
using EndPtr = std::shared_ptr<End>;

class Network {
 public:
  Network(Timeline& timeline, Random& random) : timeline_(timeline), random_(random) {}
  ~Network() { drop_all(); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // For the end of a history: callbacks would keep their owners alive for ever.
  void drop_all();

  using OnConnection = std::function<void(const std::shared_ptr<End>&)>;
  // Throws Error when the port is taken.
  void listen(const PartyPtr& party, std::uint16_t port, OnConnection on_connection);
  void stop_listening(const PartyPtr& party, std::uint16_t port);
  // `connected` runs after the listener's callback, unless the listener stands still. `failed` runs on a refusal, or
  // after 5 s.
  void connect(const PartyPtr& from, const std::string& host, std::uint16_t port, wire::Service service,
               OnConnection connected, std::function<void(const std::string&)> failed);
  // Closes the sockets of a dead party. Its peers hear of that at once. If the party's node died as well, they hear of
  // it when TCP times out.
  void died(const PartyPtr& party, bool with_node);
  void cut(const std::string& node) { cut_.insert(node); }
  void heal(const std::string& node) {  // the end of one cut; several may overlap
    if (const auto at = cut_.find(node); at != cut_.end()) cut_.erase(at);
  }
  bool any_cut() const { return !cut_.empty(); }
  bool reaches(const std::string& a, const std::string& b) const {
    return a == b || (!cut_.contains(a) && !cut_.contains(b));
  }
  // The open ends for which `matches` is true, in the order in which they were made.
  std::vector<EndPtr> ends(const std::function<bool(const End&)>& matches) const;
  std::function<void(const PartyPtr& sender)> before_send;  // may throw a Crash, which kills the sender; may be empty
  std::function<bool(const wire::Frame&)> loses;            // whether a frame never arrives; may be empty
  // Breaks a connection. Each end learns of it, perhaps much later. Frames on their way may be lost.
  void snap(const EndPtr& end);

 private:
  friend class End;
  Timeline& timeline_;
  Random& random_;
  std::map<std::pair<std::string, std::uint16_t>, std::pair<PartyPtr, OnConnection>> listeners_;
  std::vector<std::weak_ptr<End>> ends_;
  std::multiset<std::string> cut_;
};

}  // namespace espalier::sim
