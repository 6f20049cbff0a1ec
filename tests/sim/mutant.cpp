#include "tests/sim/mutant.hpp"

#include <algorithm>

namespace espalier::sim {

const std::vector<std::string>& mutant_names() {
  static const std::vector<std::string> names{
      "none",         "deaf_to_exit",     "stale_state",      "skipped_step",   "immortal_keeper", "undying_extension",
      "double_grant", "stuck_boundary",   "stale_recovery",   "silent_notice",  "forgetful_vault", "undying_base",
      "deaf_to_plan", "forgetful_keeper", "deaf_to_steering", "lost_withdrawal"};
  return names;
}

bool needs_movable(Mutant mutant) {
  return mutant == Mutant::undying_base || mutant == Mutant::forgetful_keeper || mutant == Mutant::deaf_to_steering ||
         mutant == Mutant::lost_withdrawal;
}

std::optional<Mutant> mutant_from(const std::string& name) {
  const auto& names = mutant_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Mutant>(at - names.begin());
}

}  // namespace espalier::sim
