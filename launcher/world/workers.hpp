// The workers of one generation that have said hello: their connections, what each is told, and whether they are heard
// from. Runs on the loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/world/paced_sends.hpp"
#include "planner/wire/capabilities.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class Workers {
 public:
  static constexpr int kMissedHeartbeats = 10;  // after which a worker is silent, unless it has said more

  // `places`: by rank, the place of its GPU among those that it sees. `loop` outlives this object.
  Workers(wire::Loop& loop, std::vector<int> places);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Takes over an authenticated worker's connection. Throws Error when the hello does not fit.
  void adopt(const wire::ConnectionPtr& connection, const wire::Hello& hello, const wire::Capabilities& can);
  // What names every rank, as a plan does, goes to some of the ranks at each turn of the loop: sending it to thousands
  // takes seconds. Shorter messages go at once. Each rank gets its messages in the order in which they were sent.
  void assign(const wire::Assign& assignment);  // to those that are there and to those that come
  void give_assignment(int rank);               // nothing when there is none yet
  void send_all(const wire::Frame& frame);
  void gone(int rank) { sends_.drop(rank); }  // it is sent nothing any more
  void close();                               // the connections

  void heard(int rank) { workers_.at(rank).missed = 0; }
  void beats(int rank) { workers_.at(rank).beats = true; }  // it sends heartbeats
  // Once every heartbeat interval. Those that send heartbeats and were not heard for too many of them.
  std::vector<int> silent();
  bool ready(int rank);  // it can train. True: all can
  void done(int rank) { workers_.at(rank).done = true; }
  void told(int rank) { workers_.at(rank).told = true; }  // why it leaves

  bool none() const { return workers_.empty(); }
  bool all_there() const { return workers_.size() == places_.size(); }
  bool knows(int rank) const { return workers_.contains(rank); }
  bool is_done(int rank) const { return workers_.at(rank).done; }
  bool has_told(int rank) const { return workers_.at(rank).told; }
  bool all_done() const { return all(&Worker::done); }
  bool all_replan_in_place() const { return all(&Worker::in_place); }
  std::vector<int> ranks() const;
  const std::string& node(int rank) const { return workers_.at(rank).node; }
  int may_miss(int rank) const { return workers_.at(rank).may_miss; }  // heartbeats

 private:
  struct Worker {
    wire::ConnectionPtr connection;
    std::string node;
    bool in_place = false, ready = false, done = false, told = false, beats = false;
    int may_miss = kMissedHeartbeats, missed = 0;  // heartbeats
  };
  using Bytes = std::shared_ptr<const std::string>;  // an encoded frame, for many ranks
  bool all(bool Worker::*flag) const;
  const Bytes& encoded_for(int place);  // the assignment; only while there is one
  void tell(int rank, const Bytes& bytes);

  const std::vector<int> places_;
  std::map<int, Worker> workers_;  // by rank
  std::optional<wire::Assign> assignment_;
  // By place. An assignment names every rank, so it is encoded once for each place of a node, not once for each rank.
  std::map<int, Bytes> encoded_;
  PacedSends<int> sends_;  // of what is long, and of what must not overtake it
};

}  // namespace espalier::launcher
