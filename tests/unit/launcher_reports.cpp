// When the launcher looks together what it tells the planner of its job.
#include "launcher/job/reports.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "launcher/process/soon.hpp"
#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

void pass(wire::Loop& loop) {
  test::until(
      loop, [] { return false; }, 3 * Soon::kMoment);
}

}  // namespace

TEST_CASE("work that is asked for many times in a moment is done once, and again when it is asked for later") {
  wire::Loop loop;
  int done = 0;
  Soon soon(loop, [&] { ++done; });
  for (int i = 0; i < 2000; ++i) soon.ask();
  CHECK(done == 0);
  pass(loop);
  CHECK(done == 1);
  soon.ask();
  pass(loop);
  CHECK(done == 2);
  soon.ask();
  soon.forget();
  pass(loop);
  CHECK(done == 2);
}

TEST_CASE("the job's state is not looked together for a planner that is not there") {
  wire::Loop loop;
  JobContext context;
  context.config.planner_host = "127.0.0.1";
  context.config.planner_port = 1;  // nobody listens there
  int looks = 0;
  PlannerLink::Callbacks planner;
  planner.unreachable = [](const std::string&) {};
  planner.refused = [](const std::string&) {};
  Reports reports(
      loop, context,
      [&] {
        ++looks;
        return ElasticJob();
      },
      std::move(planner));
  for (int i = 0; i < 2000; ++i) reports.status_soon();
  reports.status();
  reports.status_after_step();
  pass(loop);
  CHECK(looks == 0);
}
