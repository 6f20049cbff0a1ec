// What becomes of a profile between a worker and the planner.
#include <doctest/doctest.h>

#include <limits>

#include "launcher/job/profile_relay.hpp"
#include "planner/core/error.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/wire/links_field.hpp"

using namespace espalier;
using launcher::ProfileRelay;

namespace {

const Plan kPlan = uniform_plan(2, 2, 4, 8, 2, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});
const ModelShape kShape{"gpt2", 4, 64, 4, 32, 256, 8, 2};

Profile measured(std::int64_t step) {
  Profile profile;
  profile.plan = kPlan;
  profile.shape = kShape;
  profile.boundary_bytes = 8192;
  profile.step = step;
  ReplicaProfile one;
  one.fwd = 3, one.comm_fwd = 1, one.bwd = 6, one.optim = 2, one.sync = 0, one.peak_bytes = 1e6;
  profile.replicas = {one, one};
  profile.replicas[1].stage = 1;
  return profile;
}

wire::Frame sent(const Profile& profile) { return wire::to_frame(wire::Profiled{profile}); }

// Why the relay refuses what `change` makes of a good profile.
template <class Change>
std::string refusal(Change change) {
  ProfileRelay relay;
  Profile profile = measured(10);
  change(profile);
  const std::string why = relay.take(sent(profile), 0, kPlan, kShape);
  CHECK_FALSE(relay.newest());
  return why;
}

}  // namespace

TEST_CASE("a profile from rank 0 is told once, and again only to a planner that registers the job anew") {
  ProfileRelay relay;
  CHECK_FALSE(relay.untold());
  CHECK(relay.take(sent(measured(10)), 0, kPlan, kShape).empty());
  REQUIRE(relay.newest());
  CHECK(relay.untold()->step == 10);
  CHECK_FALSE(relay.untold());
  CHECK(relay.newest()->replicas[1].fwd == 3);
  CHECK(relay.newest()->replicas[0].sync == 0.0);
}

TEST_CASE("of profiles that come faster than they are told only the newest is told") {
  ProfileRelay relay;
  for (const int step : {10, 20, 30}) CHECK(relay.take(sent(measured(step)), 0, kPlan, kShape).empty());
  CHECK(relay.untold()->step == 30);
  CHECK_FALSE(relay.untold());
  CHECK(relay.take(sent(measured(30)), 0, kPlan, kShape).find("of step 30 after one of step 30") != std::string::npos);
  CHECK_FALSE(relay.untold());
}

TEST_CASE("another generation knows nothing of the one before") {
  ProfileRelay relay;
  relay.take(sent(measured(10)), 0, kPlan, kShape);
  relay.forget();
  CHECK_FALSE(relay.newest());
  CHECK_FALSE(relay.untold());
  CHECK(relay.take(sent(measured(9)), 0, kPlan, kShape).empty());
}

TEST_CASE("a profile that cannot be of the running plan is refused by name") {
  CHECK(refusal([](Profile& p) { p.plan.micro_batches = 4; }).find("another plan") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.shape.layers = 5; }).find("another model") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].replica = 2; }).find("stage 1 replica 2: not in the plan") !=
        std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].stage = -1; }).find("not in the plan") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].stage = 0; }).find("stage 0 replica 0: reported twice") !=
        std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas.assign(100000, p.replicas[0]); }).find("twice") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas.clear(); }).find("no replica") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.step = 0; }).find("step") != std::string::npos);
}

TEST_CASE("a profile with impossible figures is refused by name") {
  CHECK(refusal([](Profile& p) { p.replicas[0].bwd = -1; }).find("bwd") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[0].fwd = std::numeric_limits<double>::quiet_NaN(); }).find("fwd") !=
        std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[0].optim = std::numeric_limits<double>::infinity(); }).find("optim") !=
        std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].sync = -0.5; }).find("sync") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].comm_fwd = 4; }).find("comm_fwd is more than fwd") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].bwd_weights = 7; }).find("bwd_weights is more than bwd") !=
        std::string::npos);
  CHECK(refusal([](Profile& p) { p.replicas[1].peak_bytes = 1e300; }).find("peak_bytes") != std::string::npos);
  CHECK(refusal([](Profile& p) { p.boundary_bytes = 1e16; }).find("boundary_bytes") != std::string::npos);
  CHECK(unfit(measured(1), kPlan, kShape).empty());
}

TEST_CASE("the look at links that came with the newest profile is kept with it") {
  ProfileRelay relay;
  CHECK(relay.links().number == 0);
  CHECK(relay.take(wire::with_links(sent(measured(10)), {3, {{"n1", "n2", 1.5}}}), 0, kPlan, kShape).empty());
  CHECK(relay.links().number == 3);
  REQUIRE(relay.links().figures.size() == 1);
  CHECK(relay.links().figures[0].to == "n2");
  CHECK(relay.links().figures[0].gb_s == 1.5);
  // A profile with a look that is none is refused, and leaves both.
  const auto refused = [&](const LinkLook& look) {
    return relay.take(wire::with_links(sent(measured(20)), look), 0, kPlan, kShape);
  };
  CHECK(refused({4, {{"n1", "n9", 1}}}) == "links: a node that is not in the plan");
  CHECK(refused({4, std::vector<LinkFigure>(257, {"n1", "n2", 1})}) == "links.figures: must be at most 256");
  CHECK(relay.newest()->step == 10);
  CHECK(relay.links().number == 3);
  CHECK(relay.take(sent(measured(20)), 0, kPlan, kShape).empty());
  CHECK(relay.links().number == 0);
}

TEST_CASE("a refused profile leaves the one before, and the same refusal is said once") {
  ProfileRelay relay;
  relay.take(sent(measured(10)), 0, kPlan, kShape);
  CHECK(relay.take(sent(measured(20)), 3, kPlan, kShape).find("only rank 0") != std::string::npos);
  CHECK(relay.take(sent(measured(30)), 3, kPlan, kShape).empty());
  wire::Frame broken = sent(measured(20));
  broken.body["profile"]["replicas"][0].erase("fwd");
  CHECK(relay.take(broken, 0, kPlan, kShape).find("profile.replicas.fwd") != std::string::npos);
  CHECK(relay.newest()->step == 10);
}

TEST_CASE("what a newer worker adds to a profile is passed over") {
  ProfileRelay relay;
  wire::Frame newer = sent(measured(20));
  newer.body["more"] = 1;
  CHECK(relay.take(newer, 0, kPlan, kShape).empty());
  CHECK(relay.newest()->step == 20);
}
