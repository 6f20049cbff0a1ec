// Where the site's rules let a job have extensions: constraints, reservations, preemption by QOS, limits.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/core/share_rules.hpp"
#include "planner/daemon/share_nodes.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/waited_limits.hpp"

namespace espalier {

// [extensions] of espalier.toml. Empty: extensions have what their anchor has; of a QOS, the user's default.
struct ExtensionRules {
  std::string constraint, reservation, qos, account;
  int max_lease_minutes = 60;
  ShareRules share = {};
};

// What narrows the nodes of one job further.
struct NodeChoice {
  std::string type = {};                // GPUs of this type only; empty: any
  std::vector<std::string> types = {};  // GPUs of these types only; empty: any
  bool movable = false;                 // the constraint of a movable job is for its launcher, not for extensions
};

// For one snapshot, which must outlive it. One thread at a time.
class ClosedNodes {
 public:
  ClosedNodes(const SlurmSnapshot& slurm, const ExtensionRules& rules);

  // Nodes where extensions of `anchor` are not asked for:
  // - They lack the features, or are not in the reservation, that extensions of this job ask for.
  // - Slurm keeps them for jobs of another user.
  // - A reservation that extensions are not in has the whole node, now or before a lease would end.
  // - A job waits for the node whose QOS may not preempt extensions. Slurm would not take them back for it.
  // - A rule of [share] keeps it for others.
  // - The site's health check found fault with it, or has not looked at it yet.
  // - Its GPUs are of a type that `choice` leaves out.
  // Jobs that no rule tells apart share the result.
  NodeNames to(const SlurmJob& anchor, const NodeChoice& choice = {});

  // The last of these nodes alone, with the QOS that may not preempt; for people.
  const std::map<std::string, std::string>& kept_for_qos() const { return kept_; }
  const ShareNodes& shares() const { return shares_; }

 private:
  bool reserved(const std::string& node, const std::string& own) const;
  bool kept_for_others(const std::string& node, uid_t user) const;

  const SlurmSnapshot& slurm_;
  const ExtensionRules rules_;
  std::map<std::string, std::string> kept_;                              // node: QOS
  std::map<std::string, std::vector<const Reservation*>> reservations_;  // whole nodes, by node
  ShareNodes shares_;
  // By what extensions of a job ask for, and what rules look at: constraint, reservation, account, QOS, partition,
  // types, and the user where Slurm keeps nodes for users.
  std::map<std::array<std::string, 7>, NodeNames> known_;
};

// Why no extension of `anchor` is asked for on any node; empty: there is no such reason.
// - Slurm preempts by QOS, and nothing says who may preempt extensions.
// - A job waits for a limit that they would count against.
std::string barred(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules);
// For many anchors: `limits` are those of `slurm`.
std::string barred(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules,
                   const WaitedLimits& limits);

}  // namespace espalier
