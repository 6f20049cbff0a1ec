// The checks of `espalier doctor`: one function each, which judges facts and does nothing else.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "planner/cli/doctor/facts.hpp"
#include "planner/cli/doctor/finding.hpp"

namespace espalier::cli::doctor {

enum class Audience { everyone, administrator };

struct Check {
  const char* name;
  Audience audience;
  // The second kind is skipped when slurmctld did not answer, the third one also when it has no elastic partition.
  std::variant<Finding (*)(const Facts&), Finding (*)(const Facts&, const Slurm&),
               Finding (*)(const Facts&, const Slurm&, const Partition&)>
      judge;
};

// All of them, in the order in which their findings are read: what others rest on comes first.
std::span<const Check> checks();

// The findings of every check for the audience of `facts`. Pure.
std::vector<Finding> judge(const Facts& facts);

// Whether slurmctld loads job_submit_espalier.so, and the line of slurm.conf that makes it, which keeps the site's own
// plugins.
bool loads_submit_plugin(const Slurm& slurm);
Remedy submit_plugin_line(const Facts& facts, const Slurm& slurm);

// The tables that checks() is made of, one a file.
std::span<const Check> slurm_checks();
std::span<const Check> visibility_checks();
std::span<const Check> plugin_checks();
std::span<const Check> partition_checks();
std::span<const Check> scheduling_checks();
std::span<const Check> confinement_checks();
std::span<const Check> planner_checks();
std::span<const Check> program_checks();
std::span<const Check> gpu_checks();

}  // namespace espalier::cli::doctor
