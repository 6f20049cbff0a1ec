// Faults of the model itself, which test the invariants. Each fault breaks one guarantee that the product builds on,
// and an invariant must notice that.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace espalier::sim {

enum class Mutant {
  none,
  deaf_to_exit,       // a retired generation trains on
  stale_state,        // a new generation starts from the step before the boundary
  skipped_step,       // a new generation starts from the step after the boundary
  immortal_keeper,    // a keeper that has lost its launcher stays
  undying_extension,  // an extension that is given back, or whose keeper has ended, goes on
  double_grant,       // Slurm grants a GPU that is held
  stuck_boundary,     // an old generation does not resume when it is told to
  stale_recovery,     // a generation after a lost one begins a step too early
  silent_notice,      // no process hears that Slurm takes an extension, and Slurm does not tell it when asked
  forgetful_vault,    // a vault lets older generations go as soon as another is committed
  undying_base,       // a base that is given back, or whose keeper has ended, goes on
  deaf_to_plan,       // a rank goes on with its plan where it is told to go on with another one
  forgetful_keeper,   // a keeper of a base does not tell the next launcher what the last one has left
  deaf_to_steering,   // Slurm takes a change of the nodes that a base may get, and does not make it
  lost_withdrawal,    // a launcher is not told to withdraw a second base
};

const std::vector<std::string>& mutant_names();  // in the order of the enumeration
bool needs_movable(Mutant mutant);               // it breaks what only movable jobs build on
std::optional<Mutant> mutant_from(const std::string& name);

}  // namespace espalier::sim
