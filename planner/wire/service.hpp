// The purpose of a TCP stream. Credentials name it, so a credential for a launcher is useless at
// the planner.
#pragma once

namespace espalier::wire {

enum class Service { planner, launcher };

}  // namespace espalier::wire
