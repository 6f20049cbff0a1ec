// Lets so many rank servers start at a time. Each is a step of Slurm, and thousands of them at once would be a burden
// to slurmctld, to which all the site's users talk. The others follow as these come. Runs on the loop.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "launcher/world/placement.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class StartGate {
 public:
  // `start` starts one. Whoever has neither come nor ended after `limit` makes room, too: its node may hang.
  StartGate(wire::Loop& loop, std::size_t most, std::chrono::milliseconds limit,
            std::function<void(const ServerId&)> start)
      : loop_(loop), most_(most), limit_(limit), start_(std::move(start)) {}

  // It is started now, or when others have made room. Nothing where it waits for that already.
  void ask(const ServerId& id);
  // It has come, or ended, or is not to be started any more.
  void over(const ServerId& id);
  void close();  // nothing is started any more
  bool holds(const ServerId& id) const { return waiting_.contains(id); }

 private:
  void let_in(const ServerId& id);
  void next();

  wire::Loop& loop_;
  const std::size_t most_;
  const std::chrono::milliseconds limit_;
  const std::function<void(const ServerId&)> start_;
  std::deque<ServerId> order_;  // of those that wait; others in it have gone
  std::set<ServerId> waiting_;
  std::map<ServerId, wire::Watch> starting_;  // with their limits
  wire::Watch turn_;
  bool closed_ = false;
};

}  // namespace espalier::launcher
