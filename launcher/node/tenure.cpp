#include "launcher/node/tenure.hpp"

#include "planner/wire/messages.hpp"

namespace espalier::launcher {
namespace {

// A launcher that dies closes its sockets at once. Silence means that the network is cut or that a node stands still.
constexpr int kMissedHeartbeats = 10;
// Limit until the launcher answers: it may be dead.
constexpr auto kReachLauncher = std::chrono::seconds(3);
// Limit until the launcher accepts this keeper: it may not have read Slurm's answer to the extension's submission yet.
constexpr auto kFindLauncher = std::chrono::seconds(5);
// For this time after its start or a loss, the keeper of an anchor's node looks for the launcher often.
constexpr auto kSoon = std::chrono::seconds(30);
// A launcher that was not found by then has ended before it could start a rank server on the keeper's node. A launcher
// waits some minutes for Slurm, and Slurm may refuse the steps of rank servers for some more.
constexpr auto kNeverFound = std::chrono::minutes(30);
// If nothing has listened on the launcher's host for this time, the launcher has ended.
constexpr auto kNobody = std::chrono::seconds(60);

}  // namespace

Tenure::Tenure(Time start, std::chrono::milliseconds heartbeat)
    : heartbeat_(heartbeat), start_(start), until_(start + kReachLauncher) {}

bool Tenure::looks(Time now) const { return !over_ && !taken_on_ && now < until_; }

void Tenure::connected(Time now) {
  until_ = start_ + kFindLauncher;
  heard_ = sent_ = now;
  told_ = false;
}

bool Tenure::hears(const std::string& type, Time now) {
  if (type == wire::GiveBack::type) over_ = true;
  if (type == wire::GiveBack::type || type == wire::Refused::type) return false;
  taken_on_ = true;
  heard_ = now;
  return true;
}

Tenure::Turn Tenure::turn(Time now) {
  Turn turn;
  turn.notice = signalled_ && !told_ && taken_on_;
  told_ = told_ || turn.notice;
  turn.lost = now - heard_ > kMissedHeartbeats * heartbeat_;
  turn.heartbeat = !turn.lost && now - sent_ >= heartbeat_;
  if (turn.heartbeat) sent_ = now;
  return turn;
}

void AnchorTenure::looked(Time now, bool nobody) {
  if (!nobody) nobody_since_.reset();
  else if (!nobody_since_) nobody_since_ = now;
}

bool AnchorTenure::stays(Time now) const {
  if (!found_) return now - alone_since_ < kNeverFound;
  return !nobody_since_ || now - *nobody_since_ < kNobody;
}

std::chrono::milliseconds AnchorTenure::pause(Time now) const {
  return now - since_ < kSoon ? std::chrono::milliseconds(500) : std::chrono::seconds(5);
}

}  // namespace espalier::launcher
