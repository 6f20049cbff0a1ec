// Whom Slurm would take extensions back for: read from slurmctld's configuration and its QOS.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace espalier {

// One QOS as slurmctld knows it.
struct Qos {
  std::string name;
  std::set<std::string> preempts;    // names of the QOS whose jobs its jobs may preempt
  std::string mode;                  // PreemptMode, such as "CANCEL"; empty: the cluster's
  std::uint32_t grace_seconds = 0;   // GraceTime
  double usage_factor = 1;           // how much of their use is charged to its jobs
  std::int64_t exempt_seconds = -1;  // PreemptExemptTime; -1: that of other QOS, or the cluster's, counts
};

struct PreemptionSettings {
  std::string type;                  // PreemptType, such as "preempt/qos"; empty: none
  std::string mode;                  // the cluster's PreemptMode, such as "CANCEL"
  std::string partition;             // of extensions
  std::string partition_mode;        // the PreemptMode in force there
  std::string extension_qos;         // [extensions] qos; empty: not set
  std::vector<Qos> qos;              // empty: slurmctld tells none, for lack of accounting
  std::string partition_qos = {};    // the QOS of the partition itself; empty: none, or not known
  std::uint32_t exempt_seconds = 0;  // the cluster's PreemptExemptTime
};

struct PreemptionRule {
  enum class By { nobody, partition, qos };
  By by = By::nobody;
  std::string found;                 // one sentence
  std::vector<std::string> missing;  // a sentence for each thing that is missing, with its remedy
  // False: Slurm preempts by QOS, and nothing says who may preempt extensions. Then no GPU is lent.
  bool lends = true;
  std::set<std::string> takers;  // by QOS: the QOS whose jobs may preempt extensions
  // Slurm preempts no extension that has run for less than this (PreemptExemptTime).
  std::int64_t exempt_seconds = 0;

  // Whether Slurm would take extensions back for a job of this QOS. Where it preempts nobody for anybody, the planner
  // takes them back alone, for all jobs alike.
  bool taken_back_for(const std::string& qos) const { return by != By::qos || takers.contains(qos); }
  // Whether extensions can be left to Slurm: it takes back the young ones, too, as soon as a job waits for them.
  bool takes_all_back() const { return by != By::nobody && exempt_seconds == 0; }
  bool operator==(const PreemptionRule&) const = default;
};

// slurm.conf(5), PreemptType and PreemptMode; sacctmgr(1), Preempt and PreemptMode. Under preempt/qos the QOS alone
// decide: the tiers and modes of partitions do not count, nor does their GraceTime.
PreemptionRule judge_preemption(const PreemptionSettings& settings);

}  // namespace espalier
