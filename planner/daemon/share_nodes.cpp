#include "planner/daemon/share_nodes.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier {
namespace {

bool listed(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::string clause(const std::string& what, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? what + " " : ", ") + name;
  return text;
}

// With "and" between those that are not empty.
std::string joined(const std::vector<std::string>& clauses) {
  std::string text;
  for (const std::string& one : clauses) text += (text.empty() || one.empty() ? "" : " and ") + one;
  return text;
}

}  // namespace

ShareNodes::ShareNodes(const SlurmSnapshot& slurm, const ShareRules& rules) : slurm_(slurm) {
  for (const ShareRule& rule : rules.rules) {
    const auto add = [&](const std::string& node) {
      auto& list = of_node_[node];
      if (list.empty() || list.back() != &rule) list.push_back(&rule);
    };
    for (const std::string& node : expand_hosts(rule.nodes.c_str())) add(node);
    for (const std::string& name : rule.of_partitions)
      if (const auto found = slurm.partitions.find(name); found != slurm.partitions.end())
        for (const std::string& node : found->second) add(node);
  }
}

bool ShareNodes::admits(const ShareRule& rule, const SlurmJob& anchor) const {
  const auto within = [&](const std::string& account) { return slurm_.is_within(anchor.account, account); };
  return (rule.accounts.empty() || std::any_of(rule.accounts.begin(), rule.accounts.end(), within)) &&
         listed(rule.qos, anchor.qos) && listed(rule.partitions, anchor.partition);
}

const ShareRule* ShareNodes::lender(const std::string& node, const SlurmJob& anchor) const {
  const auto found = of_node_.find(node);
  if (found == of_node_.end()) return nullptr;
  for (const ShareRule* rule : found->second)
    if (admits(*rule, anchor)) return rule;
  return nullptr;
}

const ShareRule* ShareNodes::keeper(const std::string& node, const SlurmJob& anchor) const {
  const auto found = of_node_.find(node);
  return found == of_node_.end() || lender(node, anchor) != nullptr ? nullptr : found->second.front();
}

void check_share_rules(const ShareRules& rules) {
  // libslurm takes what it cannot expand, such as "n[1-", for the name of one node.
  const auto is_no_name = [](const std::string& name) { return name.find_first_of("[]{} \t") != std::string::npos; };
  for (const ShareRule& rule : rules.rules) {
    const auto names = expand_hosts(rule.nodes.c_str());
    if (!rule.nodes.empty() && (names.empty() || std::any_of(names.begin(), names.end(), is_no_name)))
      throw Error("share.rules: rule \"" + rule.name + "\": nodes: \"" + rule.nodes +
                  "\" is no list of nodes; write it as Slurm does, as in \"n[1-4],gpu7\"");
  }
}

std::string describe_admitted(const ShareRule& rule) {
  return joined({clause("accounts", rule.accounts), clause("QOS", rule.qos), clause("partitions", rule.partitions)});
}

std::string describe_rule(const ShareRule& rule) {
  return joined({rule.nodes, clause("the nodes of partitions", rule.of_partitions)}) + " for " +
         describe_admitted(rule);
}

}  // namespace espalier
