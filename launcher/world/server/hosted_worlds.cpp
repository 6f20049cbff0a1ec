#include "launcher/world/server/hosted_worlds.hpp"

namespace espalier::launcher {

HostedWorld* HostedWorlds::of(int generation) const {
  const auto at = worlds_.find(generation);
  return at == worlds_.end() ? nullptr : at->second.get();
}

HostedWorld* HostedWorlds::with(const std::string& name, int rank) const {
  HostedWorld* const world = of(generation_of(name));
  return world != nullptr && world->has(rank) ? world : nullptr;
}

int HostedWorlds::generation_of(const std::string& name) const {
  for (const auto& [generation, world] : worlds_)
    if (world->name() == name) return generation;
  return -1;
}

void HostedWorlds::sent(std::size_t bytes) {
  on_the_way_ += static_cast<std::int64_t>(bytes);
  if (on_the_way_ >= wire::kMostOutput) pause_output(true);
}

void HostedWorlds::passed_on(std::int64_t bytes) {
  on_the_way_ -= bytes;
  if (on_the_way_ < wire::kMostOutput) pause_output(false);
}

void HostedWorlds::pause_output(bool paused) const {
  for (const auto& [generation, world] : worlds_) world->pause_output(paused);
}

}  // namespace espalier::launcher
