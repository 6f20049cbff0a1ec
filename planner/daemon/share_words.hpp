// What [share] does for a job, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/daemon/extension_rules.hpp"

namespace espalier {

// Behind a decision's reason: the rules by which its extensions get their nodes, and the fair share that weighed the
// job's gains. Empty where neither had a part in it.
std::string share_reason(const Decision& decision, const SlurmJob& anchor, const ShareNodes& nodes,
                         const ShareRules& rules);

// One sentence for each rule that keeps some of the nodes `closed` from the job. Takes those nodes out of `closed`.
std::vector<std::string> kept_by_rules(const SlurmJob& anchor, const ShareNodes& nodes,
                                       std::vector<std::string>& closed);

}  // namespace espalier
