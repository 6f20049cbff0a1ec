// Passes events of Slurm's plugins to the planner.
#pragma once

#include "planner/daemon/planner.hpp"
#include "planner/wire/event.hpp"

namespace espalier {

// Throws Error on an unknown event or a field that is missing or unreadable.
void dispatch(const wire::Event& event, Planner& planner);

}  // namespace espalier
