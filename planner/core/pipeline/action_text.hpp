// An action in the notation of torch.distributed.pipelining: chunk, kind, micro-batch. "2F0", "1I3", "1W3", "2B0".
// Pure.
#pragma once

#include <string>

#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

char letter(Compute kind);  // F, B, I or W
std::string to_string(const Action& action);

}  // namespace espalier::pipeline
