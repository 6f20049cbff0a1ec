// The connections to the keepers on the job's own nodes, and which of these nodes are taken for lost.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class AnchorKeepers {
 public:
  // A keeper on `node` has said hello. It takes the place of one that was lost there. It is sent `keep`, if any: it may
  // have been away while older state was let go. `gone`, if any, is called when its connection has ended.
  void adopt(const wire::ConnectionPtr& connection, const std::string& node, const std::optional<wire::Keep>& keep,
             std::function<void()> gone = nullptr);
  // Once every heartbeat interval.
  void beat();
  void keep(const wire::Keep& what) const;  // sends it to all keepers
  // Sends it to kContinuations keepers, and to others in place of those that are gone: it holds the whole plan, and
  // there may be thousands of keepers.
  void remember(const wire::Continuation& what);
  void give_back() const;  // for the end of the job

  // Finds the nodes that are taken for lost. `died`: the GPUs whose ranks died in the loss that is being dealt with.
  // - A node is lost if its keepers are connected but silent.
  // - A node whose keepers have ended is lost if ranks on it have died as well. If only the keepers ended, the node may
  //   be well.
  // A node counts as heard if one of its keepers is heard: a keeper that has just come back may have two entries.
  void doubt(const std::set<GpuId>& died);
  // Whether doubt() took `node` for lost, and no keeper there was heard since.
  bool lost(const std::string& node) const { return lost_.contains(node); }

  // Heartbeats that a keeper may miss before its node is doubted.
  static constexpr int kFalters = 3;
  static constexpr int kContinuations = 8;

 private:
  void spread_continuation();
  struct Keeper {
    std::string node;
    wire::ConnectionPtr connection;  // null: gone
    int missed = 0;                  // heartbeats
    bool remembers = false;          // the last continuation
  };
  std::vector<Keeper> keepers_;  // each task of the step but the first; a node may have several
  std::set<std::string> lost_;
  std::optional<wire::Frame> continuation_;  // the last
};

}  // namespace espalier::launcher
