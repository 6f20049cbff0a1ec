#include <doctest/doctest.h>

#include "launcher/grace.hpp"

using namespace espalier::launcher;

TEST_CASE("the time to leave is the shorter of the partition's GraceTime and KillWait, of those that are set") {
  SlurmSite site;
  CHECK_FALSE(grace_seconds(site, "elastic"));
  site.kill_wait_seconds = 30;
  CHECK(grace_seconds(site, "elastic") == 30);
  site.grace_seconds = {{"elastic", 20}, {"main", 5}};
  CHECK(grace_seconds(site, "elastic") == 20);
  site.grace_seconds["elastic"] = 60;
  CHECK(grace_seconds(site, "elastic") == 30);
  site.grace_seconds["elastic"] = 0;
  CHECK(grace_seconds(site, "elastic") == 30);
  site.kill_wait_seconds = 0;
  CHECK_FALSE(grace_seconds(site, "elastic"));
}

TEST_CASE("a change-over takes as long as its phases did") {
  CHECK(predicted_seconds({}) == 0);
  CHECK(predicted_seconds({3.5, 0.5, 0.25}) == 4.25);
}
