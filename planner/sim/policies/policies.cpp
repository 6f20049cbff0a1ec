#include "planner/sim/policies/policies.hpp"

#include <array>
#include <functional>

#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {

struct Named {
  const char* name;
  std::unique_ptr<Policy> (*make)(const std::string& name, const PolicyOptions& options);
};

std::unique_ptr<Policy> non_elastic(const std::string& name, const PolicyOptions&) { return make_non_elastic(name); }

// For policies with a single name.
template <std::unique_ptr<Policy> make(const PolicyOptions&)>
std::unique_ptr<Policy> only(const std::string&, const PolicyOptions& options) {
  return make(options);
}

constexpr std::array kPolicies{
    Named{"fifo", non_elastic},
    Named{"sjf", non_elastic},
    Named{"backfill", non_elastic},
    Named{"slurm", non_elastic},
    Named{"suika", make_scheduler_policy},
    Named{"suika-dp", make_scheduler_policy},
    Named{"espalier", make_scheduler_policy},
    Named{"flextrain", make_flextrain},
    Named{"flextrain-dp", make_flextrain},
    Named{"arena-anchored", make_arena_anchored},
    Named{"metis", only<make_metis>},
    Named{"sia", only<make_sia>},
    Named{"rubick", only<make_rubick>},
    Named{"elasticflow", only<make_elasticflow>},
    Named{"gavel", only<make_gavel>},
    Named{"arena", only<make_arena>},
};

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Named& policy : kPolicies) list.emplace_back(policy.name);
    return list;
  }();
  return names;
}

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyOptions& options) {
  std::string known;
  for (const Named& policy : kPolicies) {
    if (name == policy.name) return policy.make(name, options);
    known += (known.empty() ? "" : ", ") + std::string(policy.name);
  }
  throw Error("\"" + name + "\": no such policy; use one of " + known);
}

}  // namespace espalier::sim
