// What launchers report, checked before the planner computes with it or writes it down. Pure.
#pragma once

#include "planner/wire/messages.hpp"

namespace espalier {

// Both throw Error, which names the job and what is wrong, where a figure is out of the range that planning can stand:
// a launcher is a user's process, and what it says must not make the planner hang, overflow or run out of memory.
void check_report(const ElasticJob& job);
void check_report(const wire::Outcome& outcome);  // one without a plan is none to complain of

}  // namespace espalier
