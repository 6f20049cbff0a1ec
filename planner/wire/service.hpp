// What a TCP stream is for. Credentials name it, so that one made for a launcher is worth nothing at the planner.
#pragma once

namespace espalier::wire {

enum class Service { planner, launcher };

}  // namespace espalier::wire
