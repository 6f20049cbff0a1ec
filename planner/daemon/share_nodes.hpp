// Whose jobs may have extensions on which nodes, by the rules of [share].
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/share_rules.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// For one snapshot and rules, which must outlive it. Any thread.
class ShareNodes {
 public:
  ShareNodes(const SlurmSnapshot& slurm, const ShareRules& rules);

  bool empty() const { return of_node_.empty(); }  // no rule names a node
  // The first rule that keeps `node` from extensions of `anchor`; null: none does.
  const ShareRule* keeper(const std::string& node, const SlurmJob& anchor) const;
  // The first rule that names `node` and admits `anchor`; null: there is none.
  const ShareRule* lender(const std::string& node, const SlurmJob& anchor) const;

 private:
  bool admits(const ShareRule& rule, const SlurmJob& anchor) const;

  const SlurmSnapshot& slurm_;
  std::map<std::string, std::vector<const ShareRule*>> of_node_;  // in the rules' order
};

// Throws Error where the nodes of a rule are no list of nodes.
void check_share_rules(const ShareRules& rules);

// "accounts physics, chemistry and QOS high": whom a rule admits.
std::string describe_admitted(const ShareRule& rule);
// "n[1-4] and the nodes of partitions old for accounts physics".
std::string describe_rule(const ShareRule& rule);

}  // namespace espalier
