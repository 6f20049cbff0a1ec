// Profile jobs of a job that waits: on which GPUs they run, how many there may be, and when they are ended.
#include <doctest/doctest.h>

#include "planner/daemon/profile_jobs.hpp"
#include "planner/daemon/strays.hpp"
#include "planner/wire/stage_queries.hpp"
#include "tests/unit/queue_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using namespace espalier::queue_cases;

namespace {

std::vector<ProfilePlace> places_of_30(SlurmSnapshot& slurm, const ProfilingRules& rules,
                                       const NodeNames& closed = {}) {
  return profile_places(slurm, slurm.jobs[30], rules, profile_jobs(slurm, "elastic", slurm.jobs[30]), closed);
}

}  // namespace

TEST_CASE("a profile job is known by its comment, and no extension is one") {
  CHECK(wire::profiled_type("espalier:ext:30:abc stage-profile:h100") == "h100");
  CHECK(wire::profiled_type("espalier:ext:30:abc stage-profile:h100 of our site") == "h100");
  CHECK(wire::profiled_type("espalier:ext:30:abc of our site") == "");
  CHECK(wire::profiled_type("espalier:ext:30:abc") == "");
  CHECK(wire::profiled_type("stage-profile:h100") == "");
  CHECK(wire::profiled_type("") == "");
}

TEST_CASE(
    "each GPU type gets one profile job, the types that the job may start on first, on the node with the fewest idle "
    "GPUs") {
  SlurmSnapshot slurm = queue();
  slurm.cluster.nodes.push_back(node("n3", 4));
  slurm.cluster.nodes.push_back(node("n4", 1, "leaf1", "v100"));
  slurm.cluster.nodes[3].usable = false;
  const auto places = places_of_30(slurm, {4, 2, 7}, nullptr);
  REQUIRE(places.size() == 2);
  CHECK(places[0].type == "h100");
  CHECK(places[0].request.node == "n1");  // n3 has four
  CHECK(places[0].request.gpus == 1);
  CHECK(places[0].request.lease_minutes == 7);
  CHECK(places[0].request.cpus == 5);  // of 16 for two idle GPUs and a remainder
  CHECK(places[0].idle);
  CHECK(places[1].type == "a100");
  const auto closed = std::make_shared<std::vector<std::string>>(std::vector<std::string>{"n1", "n2"});
  const auto elsewhere = places_of_30(slurm, {4, 2, 7}, closed);
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere[0].request.node == "n3");
}

TEST_CASE("where no GPU of a type is idle, the profile job waits for one") {
  SlurmSnapshot slurm = queue();
  hold(slurm.cluster, {11, "n1", {2, 3}});
  const auto places = places_of_30(slurm, {}, nullptr);
  REQUIRE(places.size() == 2);
  CHECK(places[0].type == "h100");
  CHECK_FALSE(places[0].idle);
  CHECK(places[0].request.cpus == 1);  // how many the node has is not known
  NodeView& busy = slurm.cluster.nodes[0];
  busy.free_cpus = 0;
  busy.free_memory_mb = 0;
  busy.cpus = 16;
  busy.memory_mb = 64000;
  const auto waits = places_of_30(slurm, {}, nullptr);
  CHECK(waits.at(0).request.cpus == 4);
  CHECK(waits.at(0).request.memory_mb == 16000);
}

TEST_CASE("jobs outside the partition for extensions do not count as profile jobs, whatever their comment says") {
  SlurmSnapshot slurm = queue();
  for (JobId id = 40; id < 50; ++id) {
    slurm.jobs[id] = profile_job(id, 1001, 1, "a100", {});
    slurm.jobs[id].partition = "main";
  }
  CHECK(places_of_30(slurm, {4, 2, 10}).size() == 2);
}

TEST_CASE("a job that took a profile job's grant under another name counts as one") {
  SlurmSnapshot slurm = queue();
  for (JobId id = 40; id < 42; ++id) {
    slurm.jobs[id] = profile_job(id, 1000, 30, "a100", {});
    slurm.jobs[id].comment = "espalier:ext:30:ab" + std::to_string(id);
  }
  CHECK(refusal([&] { places_of_30(slurm, {4, 2, 10}); }).find("profiling.per_user") != std::string::npos);
}

TEST_CASE("grants whose jobs Slurm has not told of yet count for some seconds, beside the jobs that it has told of") {
  SlurmSnapshot slurm = queue();
  RecentGrants grants;
  grants.add(1000, 100, "espalier-grant-1:aaaaaaaaaaaaaaaa:1000:30:n1:1:10:0:mac");
  grants.add(1000, 101, "espalier-grant-1:bbbbbbbbbbbbbbbb:1000:30:n2:1:10:0:mac");
  grants.add(1001, 101, "espalier-grant-1:cccccccccccccccc:1001:33:n2:1:10:0:mac");
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 102).of_user == 2);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 102).all == 3);
  CHECK(grants.with_grants({9, 4, {}}, slurm, 1000, 102).all == 12);  // none of the nine is of these grants
  CHECK(grants.with_grants({9, 4, {}}, slurm, 1000, 102).of_user == 6);
  slurm.jobs[31] = profile_job(31, 1000, 30, "a100", {});
  slurm.jobs[31].comment = "espalier:ext:30:aaaaaaaaaaaaaaaa stage-profile:a100";
  slurm.jobs[32] = slurm_job(32, 1000, {}, "espalier:ext:30:bbbbbbbbbbbbbbbb");  // under another name
  CHECK(grants.with_grants({9, 4, {}}, slurm, 1000, 102).all == 10);
  CHECK(grants.with_grants({9, 4, {}}, slurm, 1000, 102).of_user == 4);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1001, 105.5).of_user == 1);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 107).all == 0);
}

TEST_CASE("where there are no grants, the larger of the two numbers counts") {
  const SlurmSnapshot slurm = queue();
  RecentGrants grants;
  grants.add(1000, 100, "");
  grants.add(1000, 101, "");
  grants.add(1001, 101, "");
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 102).of_user == 2);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 102).all == 3);
  CHECK(grants.with_grants({9, 9, {}}, slurm, 1000, 102).all == 9);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 102, true).of_user == 1);
  CHECK(grants.with_grants({9, 9, {}}, slurm, 1000, 102, true).all == 9);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 105.5).of_user == 1);
  CHECK(grants.with_grants({0, 0, {}}, slurm, 1000, 107).all == 0);
}

TEST_CASE("the site's and the user's bounds hold, and one type is measured once") {
  SlurmSnapshot slurm = queue();
  CHECK(places_of_30(slurm, {1, 2, 10}, nullptr).size() == 1);
  CHECK(places_of_30(slurm, {4, 1, 10}, nullptr).size() == 1);
  CHECK(refusal([&] { places_of_30(slurm, {0, 2, 10}, nullptr); }).find("no profile jobs") != std::string::npos);
  CHECK(refusal([&] { places_of_30(slurm, {4, 0, 10}, nullptr); }).find("no profile jobs") != std::string::npos);
  slurm.jobs[31] = profile_job(31, 1000, 30, "a100", {});  // it waits, and counts
  const auto left = places_of_30(slurm, {4, 2, 10}, nullptr);
  REQUIRE(left.size() == 1);
  CHECK(left[0].type == "h100");
  CHECK(profile_places(slurm, slurm.jobs[30], {4, 2, 10}, profile_jobs(slurm, "elastic", slurm.jobs[30], 31), nullptr)
            .size() == 2);  // it is about to end
  CHECK(refusal([&] { places_of_30(slurm, {4, 1, 10}, nullptr); }).find("profiling.per_user") != std::string::npos);
  slurm.jobs[31].uid = 1007;  // another user's
  CHECK(places_of_30(slurm, {4, 1, 10}, nullptr).size() == 1);
  CHECK(refusal([&] { places_of_30(slurm, {1, 1, 10}, nullptr); }).find("profiling.gpus") != std::string::npos);
  slurm.jobs[31].state = SlurmJobState::ended;
  CHECK(places_of_30(slurm, {4, 2, 10}, nullptr).size() == 2);
}

TEST_CASE("profile jobs are ended when their job no longer waits, is another user's, or they are too many") {
  SlurmSnapshot slurm = queue();
  run_job(slurm, profile_job(31, 1000, 30, "a100", {{31, "n2", {0}}}));
  run_job(slurm, profile_job(32, 1000, 30, "h100", {{32, "n1", {2}}}));
  const auto after = [&](double seconds, const ProfilingRules& rules = {}) {
    Strays strays("elastic");
    strays.look_at_profile_jobs(slurm, rules);
    SlurmSnapshot later = slurm;
    later.time += seconds;
    return strays.look_at_profile_jobs(later, rules);
  };
  const std::map<JobId, LiveJob> none;
  Strays strays("elastic");
  strays.look(slurm, none);
  slurm.time += 500;
  CHECK(strays.look(slurm, none).empty());  // they are no extensions of a job without launcher
  CHECK(after(500).empty());
  REQUIRE(after(20, {4, 1, 10}).size() == 1);
  CHECK(after(20, {4, 1, 10}).front().extension == 32);  // the youngest
  CHECK(after(5, {4, 1, 10}).empty());
  CHECK(after(20, {1, 4, 10}).size() == 1);
  slurm.jobs[30].uid = 1007;
  CHECK(after(2).size() == 2);
  slurm.jobs[30].uid = 1000;
  slurm.jobs[30].state = SlurmJobState::running;
  REQUIRE(after(2).size() == 2);
  CHECK(after(2).front().why == "the job that it profiles for has started");
  slurm.jobs.erase(30);
  CHECK(after(2).size() == 2);
}
