// A node that computes more slowly than its like shows in a job's profile.
#include <doctest/doctest.h>

#include "planner/core/model/compared_nodes.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

Site site_of_three() {
  return site_from_view(
             ClusterView{{node("n1", 4), node("n2", 4), node("n3", 4), node("n4", 4, "leaf1", "a100")}, {}, {}}, {})
      .site;
}

Replica on(const std::string& node, int share) { return {share, {{node, 0}}}; }

ReplicaProfile timed(int stage, int replica, double fwd, double bwd, double comm = 0) {
  ReplicaProfile one;
  one.stage = stage, one.replica = replica, one.fwd = fwd, one.bwd = bwd, one.comm_fwd = comm;
  return one;
}

}  // namespace

TEST_CASE("of nodes that do the same the slow one is named, with what it reaches") {
  Profile profile;
  profile.plan = {16, 4, {{12, 1, {on("n1", 2), on("n2", 1), on("n3", 1)}}}};
  // n1 has twice the samples, and is compared with nobody. All-reduces do not count: n2 waits for n3 in them.
  profile.replicas = {timed(0, 0, 20, 40), timed(0, 1, 15, 20, 5), timed(0, 2, 20, 40)};
  const auto shares = compute_shares(site_of_three(), profile);
  REQUIRE(shares.size() == 2);
  CHECK(shares.at("n2") == doctest::Approx(1));
  CHECK(shares.at("n3") == doctest::Approx(0.5));
}

TEST_CASE("a replica with fewer samples is not slow because it needs longer for each of them") {
  Profile profile;
  profile.plan = {12, 2, {{12, 1, {on("n1", 2), on("n2", 2), on("n3", 1), on("n4", 1)}}}};
  // A layer lasts 0.76 samples longer than its samples do.
  profile.replicas = {timed(0, 0, 92, 184), timed(0, 1, 92, 184), timed(0, 2, 58.7, 117.3), timed(0, 3, 30, 60)};
  const auto shares = compute_shares(site_of_three(), profile);
  REQUIRE(shares.size() == 2);  // n3's only like is of another type
  CHECK(shares.at("n1") == doctest::Approx(1));
  CHECK(shares.at("n2") == doctest::Approx(1));
}

TEST_CASE("of two nodes the slower one is slow") {
  Profile profile;
  profile.plan = {16, 4, {{12, 1, {on("n1", 1), on("n2", 1)}}}};
  profile.replicas = {timed(0, 0, 10, 20), timed(0, 1, 40, 80)};
  const auto shares = compute_shares(site_of_three(), profile);
  CHECK(shares.at("n1") == doctest::Approx(1));
  CHECK(shares.at("n2") == doctest::Approx(0.25));
}

TEST_CASE("nodes that do different things are not compared") {
  Profile profile;
  // The first stage has the embedding, the last the head; n4 has other GPUs; the inner stages are alike.
  profile.plan = {16, 4, {{3, 1, {on("n1", 4)}}, {3, 1, {on("n2", 4)}}, {6, 1, {on("n3", 4)}}, {3, 1, {on("n4", 4)}}}};
  profile.replicas = {timed(0, 0, 90, 90), timed(1, 0, 10, 20), timed(2, 0, 30, 60), timed(3, 0, 99, 99)};
  const auto shares = compute_shares(site_of_three(), profile);
  REQUIRE(shares.size() == 2);
  CHECK(shares.at("n2") == doctest::Approx(1));
  CHECK(shares.at("n3") == doctest::Approx(2.0 / 3));
  profile.plan = {16, 4, {{12, 1, {on("n1", 1), on("n1", 1)}}}};
  profile.replicas = {timed(0, 0, 10, 20), timed(0, 1, 40, 80)};
  CHECK(compute_shares(site_of_three(), profile).empty());  // one node only
  profile.replicas = {timed(0, 7, 10, 20), timed(5, 0, 40, 80), timed(0, 0, 0, 0)};
  CHECK(compute_shares(site_of_three(), profile).empty());
}
