#include "planner/core/preemption.hpp"

#include <algorithm>

namespace espalier {
namespace {

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool cancels(const std::string& mode) {
  return mode.find("CANCEL") != std::string::npos || mode.find("REQUEUE") != std::string::npos;
}

void judge_qos(const PreemptionSettings& settings, PreemptionRule& result) {
  result.by = PreemptionRule::By::qos;
  result.lends = false;
  const std::string& name = settings.extension_qos;
  result.found = "Slurm preempts by QOS (PreemptType=preempt/qos)";
  if (name.empty()) {
    result.missing.push_back(
        "extensions have no QOS of their own, so nothing says who may take them back: no GPU is lent; make a QOS that "
        "other QOS may preempt, and set qos in [extensions] of espalier.toml");
    return;
  }
  const auto own =
      std::find_if(settings.qos.begin(), settings.qos.end(), [&](const Qos& one) { return one.name == name; });
  if (own == settings.qos.end()) {
    result.missing.push_back("slurmctld knows no QOS " + name +
                             ", which qos in [extensions] names: no GPU is lent; sacctmgr add qos " + name);
    return;
  }
  const std::string mode = own->mode.empty() ? settings.mode : own->mode;
  if (!cancels(mode)) {
    result.missing.push_back("PreemptMode of QOS " + name + " is " + (mode.empty() ? "OFF" : mode) +
                             ", so that no extension leaves its GPUs: no GPU is lent; sacctmgr modify qos " + name +
                             " set PreemptMode=cancel");
    return;
  }
  for (const Qos& one : settings.qos)
    if (one.name != name && one.preempts.contains(name)) result.takers.insert(one.name);
  if (result.takers.empty()) {
    result.missing.push_back("no QOS may preempt QOS " + name +
                             ": no GPU is lent; sacctmgr modify qos normal set Preempt+=" + name);
    return;
  }
  result.lends = true;
  result.found += ": QOS " + listed(result.takers) + " may take extensions (QOS " + name + ") back";
}

// A QOS goes before the cluster. Which of the two QOS goes first is a flag of theirs (OverPartQOS), so that the longer
// time counts.
std::int64_t exempt_seconds(const PreemptionSettings& settings) {
  std::int64_t longest = -1;
  for (const Qos& one : settings.qos)
    if (one.name == settings.extension_qos || one.name == settings.partition_qos)
      longest = std::max(longest, one.exempt_seconds);
  return longest >= 0 ? longest : settings.exempt_seconds;
}

}  // namespace

PreemptionRule judge_preemption(const PreemptionSettings& settings) {
  PreemptionRule result;
  if (settings.type == "preempt/qos") {
    judge_qos(settings, result);
  } else if (settings.type == "preempt/partition_prio" && cancels(settings.partition_mode)) {
    result.by = PreemptionRule::By::partition;
    result.found =
        "Slurm preempts by partition (PreemptType=preempt/partition_prio): jobs of partitions with a higher "
        "PriorityTier may take extensions (partition " +
        settings.partition + ") back";
  } else {
    result.found =
        settings.type == "preempt/partition_prio"
            ? "Slurm preempts by partition, but not jobs of partition " + settings.partition + " (PreemptMode=OFF)"
            : "Slurm preempts no job (PreemptType=" + (settings.type.empty() ? "preempt/none" : settings.type) + ")";
    result.missing.push_back(
        "only espalierd takes extensions back; set PreemptType=preempt/partition_prio, and "
        "PreemptMode=CANCEL for partition " +
        settings.partition + ", in slurm.conf: `espalier doctor --fix-plan` prints the lines");
  }
  if (result.by != PreemptionRule::By::nobody) result.exempt_seconds = exempt_seconds(settings);
  if (result.lends && result.exempt_seconds > 0)
    result.missing.push_back("Slurm preempts no extension in its first " + std::to_string(result.exempt_seconds) +
                             " s (PreemptExemptTime): espalierd takes extensions back itself; give their QOS "
                             "PreemptExemptTime=0");
  if (settings.extension_qos.empty() || result.by == PreemptionRule::By::qos) return result;
  if (!settings.qos.empty() && std::none_of(settings.qos.begin(), settings.qos.end(),
                                            [&](const Qos& one) { return one.name == settings.extension_qos; }))
    result.missing.push_back("slurmctld knows no QOS " + settings.extension_qos +
                             ", which qos in [extensions] names, and refuses every extension; sacctmgr add qos " +
                             settings.extension_qos);
  return result;
}

}  // namespace espalier
