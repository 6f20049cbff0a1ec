// Whether the names in [share] and [objective] of espalier.toml are names that Slurm knows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/core/schedule/objective.hpp"
#include "planner/core/share_rules.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/slurm_agent.hpp"
#include "planner/wire/loop.hpp"

namespace espalier {

// Warnings, one for each name that Slurm does not know, at most 20 and one more that counts the rest. Accounts and QOS
// are looked at only where Slurm has accounting. Pure.
std::vector<std::string> unknown_names(const ShareRules& share, const Objective& objective, const SlurmNames& known);

// Warns of them in the log. A name that Slurm does not know is no error: an account may be made later. All on the
// loop's thread; Slurm is asked on the agent's, so that nothing waits for it. `loop` and `slurm` must outlive this.
class RuleNames {
 public:
  RuleNames(wire::Loop& loop, SlurmAgent& slurm) : loop_(loop), slurm_(slurm) {}
  // Asks once, and again a minute later while Slurm does not answer. Asks nothing where the rules name nobody.
  void check(const ShareRules& share, const Objective& objective);

 private:
  struct Question;
  void ask();

  wire::Loop& loop_;
  SlurmAgent& slurm_;
  std::shared_ptr<Question> question_;  // the newest; null: nothing is asked
  wire::Watch again_;
};

}  // namespace espalier
