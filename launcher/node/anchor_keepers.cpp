#include "launcher/node/anchor_keepers.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {

void AnchorKeepers::adopt(const wire::ConnectionPtr& connection, const std::string& node,
                          const std::optional<wire::Keep>& keep, std::function<void()> gone) {
  auto at = std::find_if(keepers_.begin(), keepers_.end(),
                         [&](const Keeper& keeper) { return keeper.node == node && !keeper.connection; });
  if (at == keepers_.end()) at = keepers_.emplace(at);
  *at = {node, connection, 0, false};
  const auto place = static_cast<std::size_t>(at - keepers_.begin());
  connection->on_frame = [this, place](const wire::Frame&) {
    keepers_[place].missed = 0;
    lost_.erase(keepers_[place].node);
  };
  connection->on_closed = [this, place, gone = std::move(gone)](const std::string&) {
    keepers_[place].connection.reset();
    if (gone) gone();
  };
  connection->send(wire::Heartbeat{});  // it has found the right launcher
  if (keep) connection->send(*keep);
  spread_continuation();
}

void AnchorKeepers::remember(const wire::Continuation& what) {
  continuation_ = wire::to_frame(what);
  for (Keeper& keeper : keepers_) keeper.remembers = false;
  spread_continuation();
}

void AnchorKeepers::spread_continuation() {
  if (!continuation_) return;
  int count = 0;
  for (const Keeper& keeper : keepers_) count += keeper.connection && keeper.remembers ? 1 : 0;
  for (Keeper& keeper : keepers_) {
    if (count >= kContinuations) return;
    if (!keeper.connection || std::exchange(keeper.remembers, true)) continue;
    keeper.connection->send(*continuation_);
    ++count;
  }
}

void AnchorKeepers::beat() {
  for (Keeper& keeper : keepers_) {
    if (!keeper.connection) continue;
    keeper.connection->send(wire::Heartbeat{});
    ++keeper.missed;
  }
  spread_continuation();
}

void AnchorKeepers::keep(const wire::Keep& what) const {
  for (const Keeper& keeper : keepers_)
    if (keeper.connection) keeper.connection->send(what);
}

void AnchorKeepers::give_back() const {
  for (const Keeper& keeper : keepers_)
    if (keeper.connection) keeper.connection->send(wire::GiveBack{});
}

void AnchorKeepers::doubt(const std::set<GpuId>& died) {
  std::set<std::string> heard;
  for (const Keeper& keeper : keepers_)
    if (keeper.connection && keeper.missed <= kFalters) heard.insert(keeper.node);
  std::set<std::string> ranks_died;  // a loss may be of thousands of ranks
  for (const GpuId& gpu : died) ranks_died.insert(gpu.node);
  for (const Keeper& keeper : keepers_)
    if (!heard.contains(keeper.node) && (keeper.connection || ranks_died.contains(keeper.node)))
      lost_.insert(keeper.node);
}

}  // namespace espalier::launcher
