#include "tests/sim/network.hpp"

#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {
constexpr Seconds kUserTimeout = 10;  // as notice_loss() sets it for TCP
constexpr Seconds kLook = 0.25;       // how often a blocked stream is tried
}  // namespace

void End::send(const wire::Frame& frame) {
  if (network_.before_send) network_.before_send(party_);
  const auto other = other_.lock();
  if (!open_ || !other || !other->open_ || (network_.loses && network_.loses(frame))) return;
  other->incoming_.push_back(frame);
  other->pump();
}

void End::pump() {
  if (pumping_ || !open_ || (incoming_.empty() && !ends_)) return;
  pumping_ = true;
  auto& random = network_.random_;
  const Seconds delay = random.chance(0.03) ? random.real(0.001, 0.3) : random.real(0.0001, 0.002);
  network_.timeline_.at(network_.timeline_.now() + (blocked_since_ < 0 ? delay : kLook), party_,
                        [weak = std::weak_ptr(std::static_pointer_cast<End>(shared_from_this()))] {
                          if (const auto self = weak.lock()) self->arrive();
                        });
}

void End::arrive() {
  pumping_ = false;
  if (!open_) return;
  const auto other = other_.lock();
  const Seconds now = network_.timeline_.now();
  if (other && !network_.reaches(party_->node, other->party_->node)) {
    if (blocked_since_ < 0) blocked_since_ = now;
    if (now - blocked_since_ >= kUserTimeout) return lose("connection: timed out");
    return pump();
  }
  blocked_since_ = -1;
  if (incoming_.empty()) return lose("connection: closed by the peer");
  const wire::Frame frame = std::move(incoming_.front());
  incoming_.pop_front();
  pump();
  const auto callback = on_frame;  // the callback may replace itself
  if (!callback) return;
  try {
    callback(frame);
  } catch (const std::exception& error) {  // as BufferedConnection: no peer's frame may end a process
    const auto closed = on_closed;
    close();
    if (closed) closed(error.what());
  }
}

// Afterwards this end has no callbacks and does not keep itself alive.
void End::drop() {
  open_ = false;
  on_frame = nullptr;
  on_closed = nullptr;
  incoming_.clear();
  self_.reset();
}

void End::close() {
  if (!open_) return;
  const auto keep = self_;
  drop();
  if (const auto other = other_.lock()) {
    other->ends_ = true;
    other->pump();
  }
}

void End::lose(const std::string& why) {
  if (!open_) return;
  const auto keep = self_;
  const auto callback = std::exchange(on_closed, nullptr);
  close();
  if (callback) callback(why);
}

void Network::drop_all() {
  for (const auto& end : ends_)
    if (const auto one = end.lock()) one->drop();
  ends_.clear();
  listeners_.clear();
}

void Network::listen(const PartyPtr& party, std::uint16_t port, OnConnection on_connection) {
  auto& slot = listeners_[{party->node, port}];
  if (slot.first && slot.first->alive) throw Error("port is taken");
  slot = {party, std::move(on_connection)};
}

void Network::stop_listening(const PartyPtr& party, std::uint16_t port) {
  const auto at = listeners_.find({party->node, port});
  if (at != listeners_.end() && at->second.first == party) listeners_.erase(at);
}

void Network::connect(const PartyPtr& from, const std::string& host, std::uint16_t port, wire::Service service,
                      OnConnection connected, std::function<void(const std::string&)> failed) {
  const Seconds delay = random_.chance(0.05) ? random_.real(0.01, 0.5) : random_.real(0.001, 0.01);
  timeline_.at(timeline_.now() + delay, nullptr, [=, this] {
    const auto later = [&](Seconds wait, const std::string& why) {
      timeline_.at(timeline_.now() + wait, from, [failed, why] { failed(why); });
    };
    if (!reaches(from->node, host)) return later(5, "no answer");
    const auto at = listeners_.find({host, port});
    if (at == listeners_.end() || !at->second.first->alive) return later(0, "connection refused");
    const PartyPtr server = at->second.first;
    if (server->stands_until > timeline_.now() + 5) return later(5, "no answer");
    const wire::Peer peer{::getuid(), ::getgid(), from->name, service};
    const auto theirs = std::make_shared<End>(*this, server, peer);
    const auto ours = std::make_shared<End>(*this, from, wire::Peer{::getuid(), ::getgid(), server->name, service});
    theirs->other_ = ours;
    ours->other_ = theirs;
    theirs->self_ = theirs;
    ours->self_ = ours;
    std::erase_if(ends_, [](const std::weak_ptr<End>& end) { return end.expired(); });
    ends_.push_back(theirs);
    ends_.push_back(ours);
    timeline_.at(timeline_.now(), server, [on_connection = at->second.second, theirs] {
      if (theirs->open_) on_connection(theirs);
    });
    timeline_.at(timeline_.now() + random_.real(0, 0.001), from, [connected, failed, ours] {
      if (ours->open_) connected(ours);
      else failed("connection: reset");
    });
  });
}

void Network::died(const PartyPtr& party, bool with_node) {
  std::erase_if(listeners_, [&](const auto& one) { return one.second.first == party; });
  for (const auto& weak : std::vector(ends_)) {
    const auto end = weak.lock();
    if (!end || end->party_ != party || !end->open_) continue;
    const auto other = end->other_.lock();
    end->drop();
    if (!other || !other->open_) continue;
    if (!with_node) {
      other->ends_ = true;
      other->pump();
    } else {
      timeline_.at(timeline_.now() + kUserTimeout, other->party_, [weak = std::weak_ptr(other)] {
        if (const auto one = weak.lock()) one->lose("connection: timed out");
      });
    }
  }
}

std::vector<EndPtr> Network::ends(const std::function<bool(const End&)>& matches) const {
  std::vector<EndPtr> found;
  for (const auto& weak : ends_)
    if (const auto end = weak.lock(); end && end->open_ && matches(*end)) found.push_back(end);
  return found;
}

void Network::snap(const EndPtr& end) {
  const auto other = end->other_.lock();
  const bool lost = random_.chance(0.5);
  for (const EndPtr& one : {end, other}) {
    if (!one) continue;
    if (lost) one->incoming_.clear();
    const Seconds delay = random_.chance(0.3) ? random_.real(0.05, kUserTimeout) : random_.real(0, 0.05);
    timeline_.at(timeline_.now() + delay, one->party_, [weak = std::weak_ptr(one)] {
      if (const auto still = weak.lock()) still->lose("connection: reset");
    });
  }
  // No frame passes any more: the ends do not know each other.
  if (other) other->other_.reset();
  end->other_.reset();
}

}  // namespace espalier::sim
