#include "planner/daemon/share_words.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "planner/core/hostlist.hpp"
#include "planner/core/schedule/move.hpp"

namespace espalier {

std::string share_reason(const Decision& decision, const SlurmJob& anchor, const ShareNodes& nodes,
                         const ShareRules& rules) {
  if (decision.acquire.empty() || moves_base(decision)) return "";
  std::map<std::string, std::vector<std::string>> lent;  // by rule
  for (const ExtensionRequest& request : decision.acquire)
    if (const ShareRule* rule = nodes.lender(request.node, anchor)) lent[rule->name].push_back(request.node);
  std::string text;
  for (const auto& [rule, names] : lent) text += "; rule \"" + rule + "\" lends it " + fold_hosts(names);
  if (rules.fair_share && anchor.fair_share) {
    char number[40];
    std::snprintf(number, sizeof number, "; fair share %.3g", *anchor.fair_share);
    text += number;
  }
  return text;
}

std::vector<std::string> kept_by_rules(const SlurmJob& anchor, const ShareNodes& nodes,
                                       std::vector<std::string>& closed) {
  std::map<const ShareRule*, std::vector<std::string>> kept;
  std::erase_if(closed, [&](const std::string& node) {
    const ShareRule* rule = nodes.keeper(node, anchor);
    if (rule != nullptr) kept[rule].push_back(node);
    return rule != nullptr;
  });
  std::vector<std::string> list;
  for (const auto& [rule, names] : kept)
    list.push_back("rule \"" + rule->name + "\" of [share] keeps " + fold_hosts(names) + " for " +
                   describe_admitted(*rule));
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace espalier
