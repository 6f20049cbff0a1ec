// Lists of a pipeline's schedule that come while a generation runs, and on which all its ranks must agree. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Reads lists as planner/core/pipeline/csv.hpp, for `layout` and `options`, and has them checked (must_run()). Throws
// Error that says why they cannot be run.
std::shared_ptr<const pipeline::Schedule> sent_lists(const std::string& csv, const Layout& layout,
                                                     const ScheduleOptions& options, Messages messages);

// The same for the same lists only; not negative.
int fingerprint(const pipeline::Schedule& lists);

}  // namespace espalier::torchrt
