#include "launcher/world/workers.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::launcher {

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
  workers_.at(rank).connection->send_encoded(encoded_for(places_.at(static_cast<std::size_t>(rank))));
}

const std::string& Workers::encoded_for(int place) {
  std::string& bytes = encoded_[place];
  if (bytes.empty()) {
    wire::Assign own = *assignment_;
    own.device = place;
    bytes = wire::encode(wire::to_frame(own));
  }
  return bytes;
}

void Workers::send_all(const wire::Frame& frame) const {
  if (workers_.empty()) return;
  const std::string bytes = wire::encode(frame);
  for (const auto& [rank, worker] : workers_) worker.connection->send_encoded(bytes);
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
