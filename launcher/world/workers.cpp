#include "launcher/world/workers.hpp"

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
// Messages up to this length are sent to 16,384 ranks in a tenth of a second.
constexpr std::size_t kShort = 4096;
}  // namespace

Workers::Workers(wire::Loop& loop, std::vector<int> places)
    : places_(std::move(places)),
      sends_(
          loop, [this](int rank, std::string frame) { workers_.at(rank).connection->send_encoded(std::move(frame)); },
          [this](int rank) { return workers_.at(rank).connection->unread(); }) {}

void Workers::close() {
  for (auto& [rank, worker] : workers_) worker.connection->close();
}

void Workers::adopt(const wire::ConnectionPtr& connection, const wire::Hello& hello, const wire::Capabilities& can) {
  const std::size_t size = places_.size();
  if (hello.rank < 0 || static_cast<std::size_t>(hello.rank) >= size)
    throw Error("worker: rank " + std::to_string(hello.rank) + " is not of a world of " + std::to_string(size));
  const auto [added, is_new] = workers_.try_emplace(hello.rank, Worker{connection, hello.node, can.in_place});
  if (!is_new) throw Error("worker: rank " + std::to_string(hello.rank) + " is connected already");
  added->second.may_miss = std::max(kMissedHeartbeats, can.missed_heartbeats);
}

void Workers::assign(const wire::Assign& assignment) {
  assignment_ = assignment;
  encoded_.clear();
  for (const auto& [rank, worker] : workers_) give_assignment(rank);
}

void Workers::give_assignment(int rank) {
  if (!assignment_) return;
  tell(rank, encoded_for(places_.at(static_cast<std::size_t>(rank))));
}

const Workers::Bytes& Workers::encoded_for(int place) {
  Bytes& bytes = encoded_[place];
  if (!bytes) {
    wire::Assign own = *assignment_;
    own.device = place;
    bytes = std::make_shared<const std::string>(wire::encode(wire::to_frame(own)));
  }
  return bytes;
}

void Workers::send_all(const wire::Frame& frame) {
  if (workers_.empty()) return;
  const auto bytes = std::make_shared<const std::string>(wire::encode(frame));
  for (const auto& [rank, worker] : workers_) tell(rank, bytes);
}

void Workers::tell(int rank, const Bytes& bytes) {
  if (bytes->size() <= kShort && !sends_.waits(rank)) return workers_.at(rank).connection->send_encoded(*bytes);
  sends_.send(rank, [bytes] { return *bytes; });
}

std::vector<int> Workers::silent() {
  std::vector<int> ranks;
  for (auto& [rank, worker] : workers_)
    if (worker.beats && !worker.done && ++worker.missed > worker.may_miss) ranks.push_back(rank);
  return ranks;
}

bool Workers::ready(int rank) {
  workers_.at(rank).ready = true;
  return all(&Worker::ready);
}

std::vector<int> Workers::ranks() const {
  std::vector<int> ranks;
  for (const auto& [rank, worker] : workers_) ranks.push_back(rank);
  return ranks;
}

bool Workers::all(bool Worker::*flag) const {
  return all_there() &&
         std::all_of(workers_.begin(), workers_.end(), [flag](const auto& one) { return one.second.*flag; });
}

}  // namespace espalier::launcher
