#include <algorithm>

#include "planner/core/schedule/objective.hpp"

namespace espalier {

const std::vector<std::string>& objective_names() {
  static const std::vector<std::string> names{"throughput", "jct", "deadline", "fairness"};
  return names;
}

std::string to_string(ObjectiveKind kind) { return objective_names()[static_cast<std::size_t>(kind)]; }

std::optional<ObjectiveKind> objective_from(const std::string& name) {
  const auto& names = objective_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<ObjectiveKind>(found - names.begin());
}

}  // namespace espalier
