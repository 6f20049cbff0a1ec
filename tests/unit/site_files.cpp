// The configuration that a site starts from is one that every part accepts, and it states the defaults.
#include <doctest/doctest.h>

#include "planner/wire/config.hpp"

TEST_CASE("etc/espalier.toml is accepted and holds the defaults") {
  const espalier::wire::Config shipped = espalier::wire::load_config("etc/espalier.toml");
  const espalier::wire::Config defaults;
  CHECK(shipped.planner_host == defaults.planner_host);
  CHECK(shipped.planner_port == defaults.planner_port);
  CHECK(shipped.state_dir == defaults.state_dir);
  CHECK(shipped.poll_seconds == defaults.poll_seconds);
  CHECK(shipped.cooldown_seconds == defaults.cooldown_seconds);
  CHECK(shipped.partition == defaults.partition);
  CHECK(shipped.max_lease_minutes == defaults.max_lease_minutes);
  CHECK(shipped.acquire_seconds == defaults.acquire_seconds);
  CHECK(shipped.heartbeat_seconds == defaults.heartbeat_seconds);
  CHECK(shipped.work_dir == defaults.work_dir);
  CHECK(shipped.topology_file == defaults.topology_file);
  CHECK(shipped.hardware == defaults.hardware);
}
