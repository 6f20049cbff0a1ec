#include <doctest/doctest.h>

#include "launcher/job/grace.hpp"

using namespace espalier::launcher;
using espalier::HandoffMethod;

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

TEST_CASE("the next change-over is not believed to send early what the last one did, nor to wait for it twice") {
  const std::map<std::string, double> phases = {{"start", 6000}, {"load", 500}, {"load_early", 2000}};
  const MeasuredPhases sent = measured_phases(phases, true), in_vain = measured_phases(phases, false);
  CHECK(sent.start == 4);
  CHECK(sent.load == 2.5);
  CHECK(in_vain.start == 4);
  CHECK(in_vain.load == 0.5);
  CHECK(measured_phases({{"start", 6000}, {"load", 500}}, false).start == 6);
}

TEST_CASE("state is sent early for two steps, which are no large part of the time to start, and not where GPUs go") {
  CHECK(early_seconds(3, 60, false) == 6);
  CHECK(early_seconds(30, 60, false) == 15);
  CHECK(early_seconds(0, 60, false) == 0);
  CHECK(early_seconds(3, 60, true) == 0);
}

TEST_CASE("no worker gives a launcher up that keeps within its own limits, also where a site has raised them") {
  espalier::wire::Config config;
  for (const int start : {1, 60, 900, 7200})
    for (const int hang : {10, 600, 7200})
      for (const int turn : {5, 60, 3600}) {
        config.start_seconds = start, config.hang_seconds = hang, config.switch_seconds = turn;
        const int patience = worker_patience(config);
        CHECK(patience > start + 2 * early_seconds(1e9, start, false));
        for (const HandoffMethod method :
             {HandoffMethod::adopt, HandoffMethod::device, HandoffMethod::overlap, HandoffMethod::checkpoint})
          CHECK(patience > boundary_seconds(turn, hang, hang, method));
      }
  // One that is broken is given up all the same.
  config.start_seconds = config.hang_seconds = config.switch_seconds = 1000000000;
  CHECK(worker_patience(config) == 30 * 86400);
}

TEST_CASE("a change-over takes as long as its phases did") {
  CHECK(predicted_seconds({}) == 0);
  CHECK(predicted_seconds({3.5, 0.5, 0.25}) == 4.25);
  const std::map<std::string, double> by_disk = {{"start", 3000}, {"stand", 4000}, {"load", 500}};
  CHECK(predicted_seconds(measured_phases(by_disk, false)) == 7.5);  // it saves again
}

TEST_CASE(
    "a hand-off has as long as the site says, or three steps; where it goes over a disk as long as a step may hang") {
  CHECK(boundary_seconds(60, 600, 2, HandoffMethod::adopt) == 60);
  CHECK(boundary_seconds(60, 600, 100, HandoffMethod::device) == 305);
  CHECK(boundary_seconds(60, 600, 2, HandoffMethod::overlap) == 600);
  CHECK(boundary_seconds(60, 600, 2, HandoffMethod::checkpoint) == 600);
  CHECK(boundary_seconds(60, 30, 2, HandoffMethod::overlap) == 60);
}
