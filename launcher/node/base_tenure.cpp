#include "launcher/node/base_tenure.hpp"

namespace espalier::launcher {
namespace {

constexpr auto kAsks = std::chrono::seconds(2), kAsksSeldom = std::chrono::seconds(30);
// If nobody has listened at the launcher's place for so long, and Slurm says then that the submitted job runs where it
// ran, the launcher has ended by itself. An answer from before that does not count: the launcher's node may have been
// lost, and Slurm may not have noticed.
constexpr auto kNobody = std::chrono::seconds(10);
// A base that has just started is awaited by its launcher.
constexpr auto kFirst = std::chrono::seconds(60);
// The longest time until the first launcher accepts the keeper. What a site sets is for later launchers.
constexpr auto kFirstAtMost = std::chrono::minutes(10);

}  // namespace

void BaseTenure::found() {
  connected_ = ever_ = true;
  nobody_since_.reset();
  answers_ = {};
}

void BaseTenure::lost(Time now) {
  if (connected_) since_ = now;
  if (connected_ && spread_.count() > 0) asked_ = now - (batch_ ? kAsks : kAsksSeldom) + spread_;
  connected_ = false;
}

void BaseTenure::looked(Time now, bool nobody) {
  if (!nobody) nobody_since_.reset(), answers_.ended_itself = false;
  else if (!nobody_since_) nobody_since_ = now;
}

void BaseTenure::heard(Submitted state, int restarts, Time now) {
  answers_.state = state;
  if (!answers_.first_restarts) answers_.first_restarts = restarts;
  answers_.requeued = answers_.requeued || state == Submitted::waits || restarts > *answers_.first_restarts;
  answers_.ended_itself =
      state == Submitted::runs && !answers_.requeued && nobody_since_ && now - *nobody_since_ >= kNobody;
}

bool BaseTenure::asks(Time now) {
  if (connected_ || (asked_ && now - *asked_ < (batch_ ? kAsks : kAsksSeldom))) return false;
  asked_ = now;
  return true;
}

bool BaseTenure::stays(Time now) const {
  if (connected_) return true;
  if (!ever_ && first_ && now - since_ >= *first_) return false;
  if (now - since_ >= (ever_ ? holds_ : kFirstAtMost) || answers_.state == Submitted::ended) return false;
  if (answers_.state != Submitted::runs || answers_.requeued) return true;
  if (!ever_) return now - since_ < kFirst;
  return !answers_.ended_itself;
}

}  // namespace espalier::launcher
