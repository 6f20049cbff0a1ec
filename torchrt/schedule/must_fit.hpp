// Whether a schedule from a file suits a plan. Pure.
#pragma once

#include <string>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Whether `given` has the plan's stages, chunks and number of micro-batches.
bool fits(const pipeline::Schedule& given, const Layout& layout);
// What becomes of `options.given`, which is there, under a plan: one sentence for the user.
std::string told_of_file(const ScheduleOptions& options, const Layout& layout);
// Throws Error when `options.given` is there and for other stages, chunks or micro-batches.
void must_fit(const ScheduleOptions& options, const Layout& layout);

}  // namespace espalier::torchrt
