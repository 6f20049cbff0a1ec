// Faults of the model itself, each of which breaks one guarantee that the product builds on: an invariant must notice.
// They are how the invariants are tested.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace espalier::sim {

enum class Mutant {
  none,
  deaf_to_exit,       // a retired generation trains on
  stale_state,        // a new generation starts from the step before the boundary
  skipped_step,       // ... or from the one after it
  immortal_keeper,    // a keeper that lost its launcher stays
  undying_extension,  // an extension that is given back, or whose keeper has ended, goes on
  double_grant,       // Slurm grants a GPU that is held
  stuck_boundary,     // an old generation that was told to resume does not
  stale_recovery,     // a generation after a lost one begins a step too early
  silent_notice,      // nobody hears that Slurm takes an extension, and Slurm never says so
  forgetful_vault,    // a vault lets go of older generations as soon as another is the job
};

const std::vector<std::string>& mutant_names();  // in the order of the enumeration
std::optional<Mutant> mutant_from(const std::string& name);

}  // namespace espalier::sim
