// The partition that extensions are submitted to.
#include <algorithm>
#include <set>
#include <string_view>

#include "planner/cli/doctor/checks.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr std::uint32_t kLeastNotice = 5, kGoodNotice = 15;  // seconds

Remedy in_line(const Facts& facts, const std::string& words) {
  return {facts.slurm_conf(), words, "PartitionName=" + facts.config.partition};
}

std::string gpu_nodes(const Slurm& slurm) {
  std::vector<std::string> names;
  for (const Node& node : slurm.nodes)
    if (node.gpus > 0) names.push_back(node.name);
  return names.empty() || names.size() == slurm.nodes.size() ? "ALL" : fold_hosts(names);
}

bool shares_nodes(const Partition& a, const Partition& b) {
  const std::set<std::string_view> names(b.nodes.begin(), b.nodes.end());
  return std::any_of(a.nodes.begin(), a.nodes.end(), [&](const std::string& name) { return names.contains(name); });
}

struct LowestTier {
  std::uint32_t tier;
  std::vector<Remedy> raised;  // what makes room below the others
};

// A tier below those of all partitions with nodes of `elastic`; null: of all partitions. The others keep their order,
// by which Slurm schedules and preempts: all of them are raised by one where one has tier 0, and else none.
LowestTier below_others(const Facts& facts, const Slurm& slurm, const Partition* elastic) {
  std::uint32_t lowest = UINT32_MAX;
  for (const Partition& other : slurm.partitions)
    if (other.name != facts.config.partition && (elastic == nullptr || shares_nodes(other, *elastic)))
      lowest = std::min(lowest, other.priority_tier);
  LowestTier result{lowest > 1 ? 1U : 0U, {}};
  if (lowest > 0) return result;
  for (const Partition& other : slurm.partitions)
    if (other.name != facts.config.partition)
      result.raised.push_back({facts.slurm_conf(), "PriorityTier=" + std::to_string(other.priority_tier + 1),
                               "PartitionName=" + other.name});
  return result;
}

Finding exists(const Facts& facts, const Slurm& slurm) {
  const std::string& name = facts.config.partition;
  const Partition* elastic = facts.elastic();
  if (elastic == nullptr) {
    auto [tier, remedies] = below_others(facts, slurm, nullptr);
    const std::string line = "PartitionName=" + name + " Nodes=" + gpu_nodes(slurm) +
                             " MaxTime=" + std::to_string(facts.config.max_lease_minutes) +
                             " PriorityTier=" + std::to_string(tier) + " PreemptMode=CANCEL GraceTime=30";
    remedies.insert(remedies.begin(), {facts.slurm_conf(), line, ""});
    return fault(
        "there is no partition " + name + " for extensions (extensions.partition in " + facts.config_path() + ")",
        remedies);
  }
  if (!elastic->up)
    return fault("partition " + name + " is not up",
                 {in_line(facts, "State=UP"), command("scontrol update PartitionName=" + name + " State=UP")});
  return ok("partition " + name + " on " + fold_hosts(elastic->nodes));
}

Finding coverage(const Facts& facts, const Slurm& slurm, const Partition& elastic) {
  std::vector<std::string> missing;
  bool any = false;
  for (const Node& node : slurm.nodes) {
    if (node.gpus == 0) continue;
    const bool has = std::find(elastic.nodes.begin(), elastic.nodes.end(), node.name) != elastic.nodes.end();
    any = any || has;
    if (!has) missing.push_back(node.name);
  }
  if (missing.empty()) return ok("it has every node with GPUs");
  const std::vector<Remedy> remedies{in_line(facts, "Nodes=" + gpu_nodes(slurm))};
  if (!any) return fault("it has no node with GPUs", remedies);
  return warning("it lacks " + fold_hosts(missing) + ": their GPUs are never lent", remedies);
}

Finding access(const Facts& facts, const Slurm&, const Partition& elastic) {
  if (elastic.root_only) return fault("RootOnly=YES: users' extensions are refused", {in_line(facts, "RootOnly=NO")});
  if (elastic.needs_reservation && facts.config.extension_reservation.empty())
    return warning("ReqResv=YES: only extensions of jobs in a reservation are accepted",
                   {in_line(facts, "ReqResv=NO")});
  std::string limits;
  std::vector<Remedy> remedies;
  const auto look = [&](const std::string& value, const std::string& key) {
    if (value.empty()) return;
    limits += (limits.empty() ? "" : ", ") + key + "=" + value;
    remedies.push_back(in_line(facts, key + "=ALL"));
  };
  look(elastic.allow_accounts, "AllowAccounts");
  look(elastic.allow_groups, "AllowGroups");
  look(elastic.allow_qos, "AllowQos");
  if (limits.empty()) return ok("every account, group and QOS may use it");
  return warning("only jobs of " + limits + " can grow", remedies);
}

Finding max_time(const Facts& facts, const Slurm&, const Partition& elastic) {
  const auto lease = static_cast<std::uint32_t>(facts.config.max_lease_minutes);
  if (elastic.max_minutes == 0)
    return warning("it has no MaxTime: users who submit into it without Espalier hold its GPUs without end",
                   {in_line(facts, "MaxTime=" + std::to_string(lease))});
  if (elastic.max_minutes >= lease)
    return ok("MaxTime is " + std::to_string(elastic.max_minutes) + " minutes, leases are at most " +
              std::to_string(lease));
  return fault("MaxTime is " + std::to_string(elastic.max_minutes) + " minutes, leases are up to " +
                   std::to_string(lease) + ": longer ones wait for ever (PartitionTimeLimit)",
               {in_line(facts, "MaxTime=" + std::to_string(lease)),
                {facts.config_path(), "max_lease_minutes = " + std::to_string(elastic.max_minutes), "[extensions]"}});
}

// Under preempt/qos the QOS alone decide (slurm.conf(5)).
bool by_qos(const Slurm& slurm) { return slurm.setting("PreemptType") == "preempt/qos"; }

Finding tier(const Facts& facts, const Slurm& slurm, const Partition& elastic) {
  if (by_qos(slurm)) return ok("Slurm preempts by QOS: tiers do not matter to it");
  std::vector<const Partition*> equal;
  std::size_t others = 0;
  for (const Partition& other : slurm.partitions) {
    if (other.name == elastic.name || !shares_nodes(other, elastic)) continue;
    ++others;
    if (other.priority_tier <= elastic.priority_tier) equal.push_back(&other);
  }
  const std::string own = std::to_string(elastic.priority_tier);
  if (others == 0) return warning("no other partition has its nodes: nobody could take them back");
  if (equal.empty())
    return ok("its PriorityTier " + own + " is below that of the " + std::to_string(others) + " others");
  std::string names;
  for (const Partition* other : equal)
    names += (names.empty() ? "" : ", ") + other->name + " (" + std::to_string(other->priority_tier) + ")";
  auto [tier, remedies] = below_others(facts, slurm, &elastic);
  if (tier != elastic.priority_tier)
    remedies.insert(remedies.begin(), in_line(facts, "PriorityTier=" + std::to_string(tier)));
  return fault("its PriorityTier " + own + " is not below that of " + names + ": jobs there cannot take GPUs back",
               remedies);
}

Finding mode(const Facts& facts, const Slurm& slurm, const Partition& elastic) {
  if (by_qos(slurm)) return ok("Slurm preempts by QOS: the partition's PreemptMode does not matter to it");
  const std::string& mode = elastic.preempt_mode;
  const std::vector<Remedy> remedies{in_line(facts, "PreemptMode=CANCEL")};
  if (mode == "CANCEL") return ok("PreemptMode is CANCEL");
  if (mode == "REQUEUE")
    return warning("PreemptMode is REQUEUE; extensions are not requeued, so it cancels them, too", remedies);
  if (mode == "OFF") return fault("PreemptMode is OFF: Slurm takes no extension back", remedies);
  return fault("PreemptMode is " + mode + ": a suspended extension keeps its GPUs' memory", remedies);
}

// With preempt/partition_prio the cluster's PreemptMode is that of every partition without its own.
Finding inherited_mode(const Facts& facts, const Slurm& slurm) {
  if (slurm.setting("PreemptType") != "preempt/partition_prio") return ok("Slurm does not preempt by partition");
  std::string found;
  std::vector<Remedy> remedies;
  for (const Partition& lower : slurm.partitions) {
    if (lower.name == facts.config.partition || !lower.inherits_mode || lower.preempt_mode == "OFF") continue;
    const auto higher = std::find_if(slurm.partitions.begin(), slurm.partitions.end(), [&](const Partition& other) {
      return other.priority_tier > lower.priority_tier && shares_nodes(other, lower);
    });
    if (higher == slurm.partitions.end()) continue;
    found += (found.empty() ? "" : "; ") + ("jobs of partition " + higher->name) + " (PriorityTier " +
             std::to_string(higher->priority_tier) + ") may preempt those of " + lower.name + " (" +
             std::to_string(lower.priority_tier) + "), which has the cluster's PreemptMode " + lower.preempt_mode;
    remedies.push_back({facts.slurm_conf(), "PreemptMode=OFF", "PartitionName=" + lower.name});
  }
  if (found.empty()) return ok("no other partition is preemptable only because the cluster's PreemptMode says so");
  return warning(found + ": if the site does not want that, it needs PreemptMode=OFF", remedies);
}

Finding grace(const Facts& facts, const Slurm& slurm, const Partition& elastic) {
  const auto kill_wait = static_cast<std::uint32_t>(slurm.number("KillWait").value_or(30));
  const Qos* qos = by_qos(slurm) ? slurm.find_qos(facts.config.extension_qos) : nullptr;
  const std::uint32_t given = qos != nullptr ? qos->grace_seconds : elastic.grace_seconds;
  const bool own = given > 0;
  const std::uint32_t notice = own ? given : kill_wait;
  const std::string found = (own ? "GraceTime is " : "GraceTime is 0, and KillWait ") + std::to_string(notice) + " s";
  if (notice >= kGoodNotice) return ok(found);
  const std::vector<Remedy> remedies{qos != nullptr
                                         ? command("sacctmgr modify qos " + qos->name + " set GraceTime=00:00:30")
                                         : in_line(facts, "GraceTime=30")};
  if (notice >= kLeastNotice)
    return warning(found + ": a training with long steps cannot hand its state on before its extension is killed",
                   remedies);
  return fault(found + ": extensions are killed before a training can hand its state on", remedies);
}

}  // namespace

std::span<const Check> partition_checks() {
  static const Check table[] = {
      {"partition", Audience::everyone, exists},
      {"partition-nodes", Audience::administrator, coverage},
      {"partition-access", Audience::everyone, access},
      {"partition-time", Audience::administrator, max_time},
      {"priority-tier", Audience::administrator, tier},
      {"preempt-mode", Audience::administrator, mode},
      {"other-preemption", Audience::administrator, inherited_mode},
      {"grace-time", Audience::administrator, grace},
  };
  return table;
}

}  // namespace espalier::cli::doctor
