#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor {
namespace {

struct Judge {
  const Facts& facts;
  Finding operator()(Finding (*check)(const Facts&)) const { return check(facts); }
  Finding operator()(Finding (*check)(const Facts&, const Slurm&)) const {
    return facts.slurm ? check(facts, *facts.slurm) : skipped("slurmctld did not answer");
  }
  Finding operator()(Finding (*check)(const Facts&, const Slurm&, const Partition&)) const {
    if (!facts.slurm) return skipped("slurmctld did not answer");
    const Partition* elastic = facts.elastic();
    return elastic != nullptr ? check(facts, *facts.slurm, *elastic)
                              : skipped("there is no partition " + facts.config.partition);
  }
};

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::skipped:
      return "skipped";
    case Verdict::warning:
      return "warning";
    case Verdict::fault:
      return "fault";
  }
  return "";
}

std::span<const Check> checks() {
  static const std::vector<Check> all = [] {
    std::vector<Check> list;
    for (const auto& table :
         {slurm_checks(), visibility_checks(), plugin_checks(), partition_checks(), scheduling_checks(),
          confinement_checks(), planner_checks(), program_checks(), gpu_checks()})
      list.insert(list.end(), table.begin(), table.end());
    return list;
  }();
  return all;
}

std::vector<Finding> judge(const Facts& facts) {
  std::vector<Finding> findings;
  for (const Check& check : checks()) {
    if (check.audience == Audience::administrator && !facts.administrator) continue;
    findings.push_back(std::visit(Judge{facts}, check.judge));
    findings.back().check = check.name;
  }
  return findings;
}

}  // namespace espalier::cli::doctor
