// What the running generation tells its successor on this node.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/core/plan.hpp"
#include "planner/wire/vault_message.hpp"

namespace espalier::torchrt {

// The marks of a rank that `before` places on `node`; nothing where none is there or none answers. `address_of`: the
// state socket of a rank of the generation before.
std::optional<wire::VaultMarks> marks_here(const Plan& before, const std::string& node,
                                           const std::function<std::string(int rank)>& address_of);

}  // namespace espalier::torchrt
