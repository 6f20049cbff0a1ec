// The worlds on a rank server, by generation, and how much output of theirs is on its way to the launcher: ranks wait
// with more while that is too much. Runs on the loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "launcher/world/server/hosted_world.hpp"

namespace espalier::launcher {

class HostedWorlds {
 public:
  void add(int generation, std::unique_ptr<HostedWorld> world) { worlds_[generation] = std::move(world); }
  bool remove(int generation) { return worlds_.erase(generation) > 0; }  // SIGKILL to its ranks. False: there is none
  void clear() { worlds_.clear(); }

  bool empty() const { return worlds_.empty(); }
  HostedWorld* of(int generation) const;                       // null: there is none
  HostedWorld* with(const std::string& name, int rank) const;  // that has this rank; null: none has
  int generation_of(const std::string& name) const;            // -1: none

  // Bytes of output were sent to the launcher, or it has passed them on.
  void sent(std::size_t bytes);
  void passed_on(std::int64_t bytes);

 private:
  void pause_output(bool paused) const;

  std::map<int, std::unique_ptr<HostedWorld>> worlds_;
  std::int64_t on_the_way_ = 0;  // bytes
};

}  // namespace espalier::launcher
