#include "planner/wire/share_keys.hpp"

#include <algorithm>

namespace espalier::wire {
namespace {

constexpr std::size_t kMostRules = 256;

void read_rule(const std::string& path, const toml::value& content, ShareRule& rule, const std::string& manual) {
  const std::string name = "share.rules";
  read_toml_table(path, name, content,
                  {{"name", toml_text(path, name + ".name", rule.name, false)},
                   {"nodes", toml_text(path, name + ".nodes", rule.nodes, false)},
                   {"of_partitions", toml_texts(path, name + ".of_partitions", rule.of_partitions)},
                   {"accounts", toml_texts(path, name + ".accounts", rule.accounts)},
                   {"qos", toml_texts(path, name + ".qos", rule.qos)},
                   {"partitions", toml_texts(path, name + ".partitions", rule.partitions)}},
                  manual);
  if (rule.name.empty()) fail_toml(path, content, name, "a rule needs a name, by which `espalier explain` calls it");
  if (rule.nodes.empty() && rule.of_partitions.empty())
    fail_toml(path, content, name, "rule \"" + rule.name + "\" names no nodes; give nodes or of_partitions");
  if (rule.accounts.empty() && rule.qos.empty() && rule.partitions.empty())
    fail_toml(path, content, name, "rule \"" + rule.name + "\" admits everybody; give accounts, qos or partitions");
}

}  // namespace

void read_share_section(const std::string& path, const toml::value& content, ShareRules& out,
                        const std::string& manual) {
  const auto weight = [&](const toml::value& value) {
    std::string text;
    toml_one_of(path, "share.weight", text, {"fairshare", "equal"})(value);
    out.fair_share = text == "fairshare";
  };
  const auto accounts = [&](const toml::value& value) {
    if (!value.is_table()) fail_toml(path, value, "share.accounts", "must be a table of accounts with their limits");
    for (const auto& [account, limit] : value.as_table())
      toml_whole(path, "share.accounts." + account, out.accounts[account], 0, 1000000)(limit);
  };
  const auto rules = [&](const toml::value& value) {
    if (!value.is_array()) fail_toml(path, value, "share.rules", "must be written as [[share.rules]]");
    if (value.as_array().size() > kMostRules)
      fail_toml(path, value, "share.rules", "has more than " + std::to_string(kMostRules) + " rules");
    for (const toml::value& one : value.as_array()) {
      ShareRule rule;
      read_rule(path, one, rule, manual);
      const auto same = [&](const ShareRule& other) { return other.name == rule.name; };
      if (std::any_of(out.rules.begin(), out.rules.end(), same))
        fail_toml(path, one, "share.rules", "there are two rules \"" + rule.name + "\"");
      out.rules.push_back(std::move(rule));
    }
  };
  read_toml_table(path, "share", content,
                  {{"weight", weight},
                   {"account_gpus", toml_whole(path, "share.account_gpus", out.account_gpus, 0, 1000000)},
                   {"accounts", accounts},
                   {"rules", rules}},
                  manual);
}

}  // namespace espalier::wire
