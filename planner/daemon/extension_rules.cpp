#include "planner/daemon/extension_rules.hpp"

#include <algorithm>

#include "planner/core/feature_expression.hpp"
#include "planner/daemon/limit_waits.hpp"

namespace espalier {

ClosedNodes::ClosedNodes(const SlurmSnapshot& slurm, const ExtensionRules& rules)
    : slurm_(slurm), rules_(rules), shares_(slurm, rules_.share) {
  const double until = slurm.time + 60.0 * rules.max_lease_minutes;
  for (const auto& [name, reservation] : slurm.reservations) {
    if (!reservation.whole_nodes || reservation.start > until || reservation.end < slurm.time) continue;
    for (const std::string& node : reservation.nodes) reservations_[node].push_back(&reservation);
  }
  if (slurm.preemption.by != PreemptionRule::By::qos) return;
  for (const WaitingJob& job : slurm.cluster.waiting) {
    const auto record = slurm.jobs.find(job.id);
    if (record == slurm.jobs.end() || slurm.preemption.taken_back_for(record->second.qos)) continue;
    if (job.only_nodes.empty())
      for (const NodeView& node : slurm.cluster.nodes) kept_.try_emplace(node.name, record->second.qos);
    for (const std::string& node : job.only_nodes) kept_.try_emplace(node, record->second.qos);
    if (kept_.size() >= slurm.cluster.nodes.size()) return;
  }
}

bool ClosedNodes::reserved(const std::string& node, const std::string& own) const {
  const auto found = reservations_.find(node);
  if (found == reservations_.end()) return false;
  const auto mine = slurm_.reservations.find(own);
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const Reservation* one) { return mine == slurm_.reservations.end() || one != &mine->second; });
}

bool ClosedNodes::kept_for_others(const std::string& node, uid_t user) const {
  const auto found = slurm_.owners.find(node);
  return found != slurm_.owners.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](uid_t owner) { return owner != user; });
}

NodeNames ClosedNodes::to(const SlurmJob& anchor, const NodeChoice& choice) {
  static const std::string kNoConstraint;
  const std::string& own_constraint = choice.movable ? kNoConstraint : anchor.features;
  const std::string& constraint = rules_.constraint.empty() ? own_constraint : rules_.constraint;
  const std::string& reservation = rules_.reservation.empty() ? anchor.reservation : rules_.reservation;
  std::string types = choice.type;
  for (const std::string& type : choice.types) types += "+" + type;
  const auto allowed = [&](const std::string& type) {
    if (!choice.type.empty() && type != choice.type) return false;
    return choice.types.empty() || std::find(choice.types.begin(), choice.types.end(), type) != choice.types.end();
  };
  const std::string user = slurm_.owners.empty() ? "" : std::to_string(anchor.uid);
  std::array<std::string, 7> key{constraint, reservation, "", "", "", types, user};
  if (!shares_.empty()) key = {constraint, reservation, anchor.account, anchor.qos, anchor.partition, types, user};
  const auto [at, fresh] = known_.try_emplace(std::move(key));
  if (!fresh) return at->second;
  const auto own = slurm_.reservations.find(reservation);
  const bool limited = !reservation.empty() && own != slurm_.reservations.end();
  static const std::set<std::string> kNone;
  std::vector<std::string> closed;
  for (const NodeView& node : slurm_.cluster.nodes) {  // sorted by name
    const auto features = slurm_.features.find(node.name);
    const bool fits = may_be_on(constraint, features == slurm_.features.end() ? kNone : features->second);
    if (!fits || (limited && !own->second.nodes.contains(node.name)) || reserved(node.name, reservation) ||
        kept_for_others(node.name, anchor.uid) || !allowed(node.gpu_type) || kept_.contains(node.name) ||
        !node.unhealthy.empty() || shares_.keeper(node.name, anchor) != nullptr)
      closed.push_back(node.name);
  }
  if (!closed.empty()) at->second = std::make_shared<const std::vector<std::string>>(std::move(closed));
  return at->second;
}

std::string barred(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules) {
  return barred(anchor, slurm, rules, WaitedLimits(slurm));
}

std::string barred(const SlurmJob& anchor, const SlurmSnapshot& slurm, const ExtensionRules& rules,
                   const WaitedLimits& limits) {
  if (!slurm.preemption.lends)
    return slurm.preemption.missing.empty() ? "Slurm would not take extensions back" : slurm.preemption.missing.front();
  const SlurmJob* const waiting = limits.against(anchor, rules);
  if (waiting == nullptr) return "";
  return "job " + std::to_string(waiting->id) + " waits for " + describe_limit(*waiting) +
         ", and extensions of this job would count against it";
}

}  // namespace espalier
