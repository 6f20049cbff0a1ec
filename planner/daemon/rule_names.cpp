#include "planner/daemon/rule_names.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <variant>

#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostWarnings = 20;
constexpr auto kAgain = wire::Loop::Milliseconds(60'000);

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

struct Kind {
  const char* name;     // "account"
  const char* unknown;  // what follows from an unknown name
  const char* listed;   // the command that lists the known ones
  const std::set<std::string>* known;
};

class Search {
 public:
  void name(const std::string& where, const Kind& kind, const std::string& name) {
    if (kind.known->empty() || kind.known->contains(name) || !told_.emplace(where + kind.name, name).second) return;
    if (++count_ > kMostWarnings) return;
    const auto same = kind.known->find(lower(name));  // Slurm's accounting makes names lower-case
    const std::string meant = same == kind.known->end() ? "" : " (it has \"" + printable(*same, 64) + "\")";
    warnings_.push_back(where + ": Slurm has no " + kind.name + " \"" + printable(name, 64) + "\"" + meant + "; " +
                        kind.unknown + "; " + kind.listed + " lists those that it has");
  }
  template <class Names>
  void names(const std::string& where, const Kind& kind, const Names& list) {
    for (const std::string& one : list) name(where, kind, one);
  }
  template <class Value>
  void keys(const std::string& where, const Kind& kind, const std::map<std::string, Value>& map) {
    for (const auto& [key, value] : map) name(where, kind, key);
  }
  std::vector<std::string> warnings() {
    if (count_ > kMostWarnings)
      warnings_.push_back("[share] and [objective]: Slurm does not know " + std::to_string(count_ - kMostWarnings) +
                          " more of their names");
    return std::move(warnings_);
  }

 private:
  std::set<std::pair<std::string, std::string>> told_;
  std::size_t count_ = 0;
  std::vector<std::string> warnings_;
};

bool names_nobody(const ShareRules& share, const Objective& objective) {
  return share.rules.empty() && share.accounts.empty() && objective.account_weights.empty() &&
         objective.qos_weights.empty();
}

}  // namespace

std::vector<std::string> unknown_names(const ShareRules& share, const Objective& objective, const SlurmNames& known) {
  constexpr const char *kAccounts = "sacctmgr show account", *kQos = "sacctmgr show qos";
  constexpr const char *kAdmits = "no job is admitted by it", *kCounts = "it counts for no job";
  Search search;
  for (const ShareRule& rule : share.rules) {
    const std::string where = "[share] rule \"" + printable(rule.name, 64) + "\"";
    search.names(where, {"account", kAdmits, kAccounts, &known.accounts}, rule.accounts);
    search.names(where, {"QOS", kAdmits, kQos, &known.qos}, rule.qos);
    search.names(where, {"partition", kAdmits, "sinfo", &known.partitions}, rule.partitions);
    search.names(where, {"partition", "the rule has no nodes of it", "sinfo", &known.partitions}, rule.of_partitions);
  }
  search.keys("[share] accounts", {"account", kCounts, kAccounts, &known.accounts}, share.accounts);
  search.keys("[objective] account_weights", {"account", kCounts, kAccounts, &known.accounts},
              objective.account_weights);
  search.keys("[objective] qos_weights", {"QOS", kCounts, kQos, &known.qos}, objective.qos_weights);
  return search.warnings();
}

struct RuleNames::Question {
  ShareRules share;
  Objective objective;
};

void RuleNames::check(const ShareRules& share, const Objective& objective) {
  again_.reset();
  question_ = names_nobody(share, objective) ? nullptr : std::make_shared<Question>(Question{share, objective});
  if (question_) ask();
}

void RuleNames::ask() {
  // An answer to an earlier question is none to this one.
  slurm_.names([this, asked = std::weak_ptr(question_)](const SlurmAgent::Names& answer) {
    const auto question = asked.lock();
    if (!question) return;
    if (std::holds_alternative<std::string>(answer)) {
      spdlog::debug("names of accounts, QOS and partitions: {}", std::get<std::string>(answer));
      again_ = loop_.after(kAgain, [this] { ask(); });
      return;
    }
    for (const std::string& warning : unknown_names(question->share, question->objective, std::get<SlurmNames>(answer)))
      spdlog::warn("{}", warning);
    question_.reset();
  });
}

}  // namespace espalier
