#include "planner/daemon/trigger_strength.hpp"

namespace espalier {
namespace {

int strength(Trigger trigger) {
  switch (trigger) {
    case Trigger::user:
      return 6;
    case Trigger::job_submitted:
      return 5;
    case Trigger::gpus_released:
      return 4;
    case Trigger::node_down:
    case Trigger::preempted:
      return 3;
    case Trigger::job_started:
    case Trigger::profile_ready:
      return 2;
    case Trigger::generation_done:
      return 1;
    case Trigger::timer:
      return 0;
  }
  return 0;
}

}  // namespace

Trigger stronger(std::optional<Trigger> a, Trigger b) { return a && strength(*a) >= strength(b) ? *a : b; }

}  // namespace espalier
