// Every part accepts the configuration that a site starts from. That configuration states the
// defaults.
#include <doctest/doctest.h>

#include "planner/wire/config.hpp"

TEST_CASE("etc/espalier.toml is accepted and holds the defaults") {
  espalier::wire::Config shipped = espalier::wire::load_config("etc/espalier.toml");
  CHECK(shipped.path == "etc/espalier.toml");
  shipped.path.clear();
  CHECK(shipped == espalier::wire::Config());
}
