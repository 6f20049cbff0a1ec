// [share] of espalier.toml: who may grow into whose idle GPUs, and how much.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace espalier {

// Reserves nodes: extensions of a job are on one of them only if a rule that names the node admits the job. A node that
// no rule names is open to every job.
struct ShareRule {
  std::string name;                        // for people
  std::string nodes;                       // Slurm's host list, as in "n[1-4]"; empty: none
  std::vector<std::string> of_partitions;  // all nodes of these Slurm partitions, besides `nodes`
  // A job is admitted if it is in one of the accounts (or below one), has one of the QOS, and was submitted to one of
  // the partitions. An empty list asks for nothing.
  std::vector<std::string> accounts, qos, partitions;
  bool operator==(const ShareRule&) const = default;
};

struct ShareRules {
  bool fair_share = true;  // gains are weighed by the fair share that Slurm gives a job's user
  // Most GPUs that the jobs of one account hold in extensions at a time; 0: no limit.
  int account_gpus = 0;
  // The same for the jobs of an account and of all accounts below it; 0: none are lent to it. An account with an entry
  // here is not subject to account_gpus.
  std::map<std::string, int> accounts;
  std::vector<ShareRule> rules;
  bool operator==(const ShareRules&) const = default;
};

}  // namespace espalier
