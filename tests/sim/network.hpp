// TCP between parties: ordered, delayed, cut by broken links and dead nodes, refused where nobody listens.
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
  void limit_frames(std::size_t, std::chrono::milliseconds) override {}  // they arrive whole here
  void lose(const std::string& why);                                     // as TCP notices it
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
  std::shared_ptr<End>
      self_;  // as the product's connections: it lives until it is closed, or for as long as it is held
  std::deque<wire::Frame> incoming_;  // on their way here
  bool open_ = true, pumping_ = false;
  bool ends_ = false;  // the other end was closed: after what is on its way, the end of the stream
  Seconds blocked_since_ = -1;
};
using EndPtr = std::shared_ptr<End>;

class Network {
 public:
  Network(Timeline& timeline, Random& random) : timeline_(timeline), random_(random) {}
  ~Network() { drop_all(); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  void drop_all();  // at the end of a history: what owners wait for in callbacks would keep them alive for ever

  using OnConnection = std::function<void(const std::shared_ptr<End>&)>;
  void listen(const PartyPtr& party, std::uint16_t port, OnConnection on_connection);  // throws Error: taken
  void stop_listening(const PartyPtr& party, std::uint16_t port);
  // `connected` runs after the listener was told; `failed` on refusal or after 5 s.
  void connect(const PartyPtr& from, const std::string& host, std::uint16_t port, OnConnection connected,
               std::function<void(const std::string&)> failed);
  // Its sockets close: at once, or, when its node died with it, by nobody's word.
  void died(const PartyPtr& party, bool with_node);
  void cut(const std::string& node) { cut_.insert(node); }
  void heal(const std::string& node) { cut_.erase(node); }
  bool reaches(const std::string& a, const std::string& b) const {
    return a == b || (!cut_.contains(a) && !cut_.contains(b));
  }
  // Open ends of connections that `matches`; in the order they were made.
  std::vector<EndPtr> ends(const std::function<bool(const End&)>& matches) const;
  std::function<void(const PartyPtr& sender)> before_send;  // may throw what kills the sender; empty: nothing
  // A connection that breaks: both ends learn of it, one perhaps much later; what is on its way may be lost.
  void snap(const EndPtr& end);

 private:
  friend class End;
  Timeline& timeline_;
  Random& random_;
  std::map<std::pair<std::string, std::uint16_t>, std::pair<PartyPtr, OnConnection>> listeners_;
  std::vector<std::weak_ptr<End>> ends_;
  std::set<std::string> cut_;
};

}  // namespace espalier::sim
