#include "planner/daemon/objective_weights.hpp"

#include <cstdio>

namespace espalier {
namespace {

constexpr int kMostLevels = 64;  // of accounts

}  // namespace

std::vector<ObjectiveWeight> objective_weights(const SlurmJob& anchor, const SlurmSnapshot& slurm,
                                               const Objective& objective) {
  std::vector<ObjectiveWeight> weights;
  std::string account = objective.account_weights.empty() ? "" : anchor.account;
  for (int level = 0; level < kMostLevels && !account.empty(); ++level) {
    if (const auto found = objective.account_weights.find(account); found != objective.account_weights.end()) {
      weights.push_back({"account " + account, found->second});
      break;
    }
    if (!slurm.shares) break;
    const auto parent = slurm.shares->parents.find(account);
    if (parent == slurm.shares->parents.end()) break;
    account = parent->second;
  }
  if (const auto found = objective.qos_weights.find(anchor.qos); found != objective.qos_weights.end())
    weights.push_back({"QOS " + anchor.qos, found->second});
  return weights;
}

std::string weight_reason(const std::vector<ObjectiveWeight>& weights) {
  std::string text;
  for (const ObjectiveWeight& one : weights) {
    char number[40];
    std::snprintf(number, sizeof number, " weighs %.3g", one.factor);
    text += "; " + one.of + number;
  }
  return text;
}

}  // namespace espalier
