#include "planner/daemon/trigger_strength.hpp"

#include <doctest/doctest.h>

using namespace espalier;

TEST_CASE("of several triggers the strongest one counts, and of equally strong ones the first") {
  CHECK(stronger(std::nullopt, Trigger::timer) == Trigger::timer);
  CHECK(stronger(Trigger::timer, Trigger::gpus_released) == Trigger::gpus_released);
  CHECK(stronger(Trigger::user, Trigger::job_submitted) == Trigger::user);
  CHECK(stronger(Trigger::node_down, Trigger::preempted) == Trigger::node_down);
  CHECK(stronger(Trigger::preempted, Trigger::node_down) == Trigger::preempted);
}
