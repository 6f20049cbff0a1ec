// Inversion of configurations that do not show all coefficients, or show impossible ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "planner/core/error.hpp"
#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

Plan two_replicas() { return {16, 4, {{12, 1, {replica(2, 0, 0, 1), replica(2, 0, 1, 1)}}}}; }

bool remarked(const Calibration& calibration, const std::string& words) {
  return std::any_of(calibration.remarks.begin(), calibration.remarks.end(),
                     [&](const std::string& remark) { return remark.find(words) != std::string::npos; });
}

// The whole synchronization of two_replicas(), from the model.
double whole_sync(const Cluster& c, const JobCoefficients& known) {
  return evaluate_plan(c.hardware, known, place_plan(c.topology, two_replicas())).stages[0].gradients;
}

Calibration with_sync(const Cluster& c, const JobCoefficients& known, double sync) {
  Profile profile = profile_of(c, known, two_replicas());
  for (ReplicaProfile& one : profile.replicas) one.sync = sync;
  return calibrate(c.hardware, c.topology, profile);
}

}  // namespace

TEST_CASE("a synchronization longer than the model's says that the bandwidth is lower") {
  const Cluster c = cluster();
  const JobCoefficients known = known_job({});
  const double whole = whole_sync(c, known);
  const Calibration found = with_sync(c, known, 1.25 * whole);
  CHECK(found.job.gpu[0].overlap == 1);
  CHECK_FALSE(found.job.gpu[0].assumed_overlap);
  REQUIRE(found.doubts.size() == 1);
  CHECK(found.doubts[0].stage == 0);
  CHECK(found.doubts[0].modelled_ms == doctest::Approx(whole));
  CHECK(found.doubts[0].explaining_ms == doctest::Approx(1.25 * whole));
  CHECK(found.job.assumed_rail);  // it is between GPUs of one node
  CHECK(found.job.rail_ms_per_byte == 0);
}

TEST_CASE("sums between two islands of one node tell nothing of the links between nodes") {
  Cluster c = cluster();
  const JobCoefficients known = known_job({});
  const Plan plan = two_replicas();
  const GpuId second = plan.stages[0].replicas[1].gpus.front();
  c.topology.add_island(c.topology.find(second.node), std::vector<int>{second.index});
  const PlacedPlan placed = place_plan(c.topology, plan);
  REQUIRE(placed.stages[0].shape.level > 0);  // they count as two nodes
  Profile profile = profile_of(c, known, plan);
  for (ReplicaProfile& one : profile.replicas)
    one.sync = 8 * evaluate_plan(c.hardware, known, placed).stages[0].gradients;
  const Calibration found = calibrate(c.hardware, c.topology, profile);
  CHECK(found.job.assumed_rail);
  CHECK(found.job.rail_ms_per_byte == 0);
}

TEST_CASE("sums between nodes that take longer than the links allow tell the links' bandwidth") {
  const Cluster c = cluster(6);
  const JobCoefficients known = known_job({});
  for (const int other : {1, 4}) {  // under the same leaf, and under another one
    CAPTURE(other);
    const Plan plan{16, 4, {{12, 1, {replica(2, 0, 0, 1), replica(2, other, 0, 1)}}}};
    const PlacedPlan placed = place_plan(c.topology, plan);
    const double whole = evaluate_plan(c.hardware, known, placed).stages[0].gradients;
    const auto found_with = [&](double sync, double learnt = 0, std::optional<JobCoefficients> of = {}) {
      Profile profile = profile_of(c, of.value_or(known), plan);
      for (ReplicaProfile& one : profile.replicas) one.sync = sync;
      return calibrate(c.hardware, c.topology, profile, {}, {.rail_ms_per_byte = learnt, .job = nullptr}).job;
    };
    const JobCoefficients slow = found_with(8 * whole);
    CHECK_FALSE(slow.assumed_rail);
    CHECK(slow.rail_ms_per_byte == doctest::Approx(8 / c.hardware.kinds[0].nic_bandwidth));
    CHECK(evaluate_plan(c.hardware, slow, placed).stages[0].gradients == doctest::Approx(8 * whole));
    // The links inside a node are as they were.
    const PlacedPlan inside = place_plan(c.topology, two_replicas());
    CHECK(evaluate_plan(c.hardware, slow, inside).stages[0].gradients ==
          doctest::Approx(evaluate_plan(c.hardware, known, inside).stages[0].gradients));
    // A part of the sum may be hidden: it does not tell that the links are as fast as the hardware says.
    const JobCoefficients sound = found_with(0.9 * whole);
    CHECK(sound.assumed_rail);
    CHECK(sound.rail_ms_per_byte == 0);
    // Links that were learnt to be slower stay so, and the overlap is what hides the rest. The backward pass of this
    // job is as long as its sum.
    JobCoefficients lean = known;
    const double bwd = evaluate_plan(c.hardware, known, placed).stages[0].time.bwd;
    for (double* bytes : {&lean.param_bytes, &lean.first.param_bytes, &lean.last.param_bytes}) *bytes *= bwd / whole;
    const double sync = 0.9 * bwd, most = 1.9 / c.hardware.kinds[0].nic_bandwidth;
    const JobCoefficients shorter = found_with(sync, 0, lean);
    const JobCoefficients kept = found_with(sync, 0.8 * most, lean);
    CHECK(kept.assumed_rail);
    CHECK(kept.rail_ms_per_byte == 0.8 * most);
    CHECK(kept.gpu[0].overlap > shorter.gpu[0].overlap);
    CHECK(evaluate_plan(c.hardware, kept, placed).stages[0].sync == doctest::Approx(sync));
    // Not if even complete overlap would not hide that much of them.
    const JobCoefficients faster = found_with(sync, 2 * most, lean);
    CHECK_FALSE(faster.assumed_rail);
    CHECK(faster.rail_ms_per_byte == doctest::Approx(most).epsilon(0.01));
  }
}

TEST_CASE(
    "a synchronization of which more is hidden than the backward pass is long says that the bandwidth is higher") {
  const Cluster c = cluster();
  const JobCoefficients known = known_job({});
  const double whole = whole_sync(c, known);
  const double bwd = evaluate_plan(c.hardware, known, place_plan(c.topology, two_replicas())).stages[0].time.bwd;
  REQUIRE(whole > bwd);
  const Calibration found = with_sync(c, known, (whole - bwd) / 2);
  CHECK(found.job.gpu[0].overlap == 64);
  REQUIRE(found.doubts.size() == 1);
  CHECK(found.doubts[0].explaining_ms == doctest::Approx(bwd + (whole - bwd) / 2));
}

TEST_CASE("nothing exposed means complete overlap") {
  Cluster c = cluster();
  const JobCoefficients known = known_job({});
  c.hardware.kinds[0].dp_bandwidth = 1e9;  // far shorter than the backward pass
  const Calibration found = with_sync(c, known, 0);
  CHECK(found.job.gpu[0].overlap == 64);
  CHECK(found.doubts.empty());
}

TEST_CASE("no data parallelism, or no measurement of its synchronization, is taken for no overlap") {
  const Cluster c = cluster();
  Profile profile = profile_of(c, known_job({}), two_replicas());
  for (ReplicaProfile& one : profile.replicas) one.sync.reset();
  const Calibration found = calibrate(c.hardware, c.topology, profile);
  CHECK(found.job.gpu[0].overlap == 1);
  CHECK(found.job.gpu[0].assumed_overlap);
  CHECK(remarked(found, "none of it is taken to overlap"));
}

TEST_CASE("a negative divided part of the activations is clamped, and the other part lowered") {
  const Cluster c = cluster();
  JobCoefficients known = known_job({});
  known.activ_p_bytes = 0;
  known.activ_np_bytes = 3 * model_sizes(kShape, {}, 2).activ_bytes;  // GPT-2's constant is 5
  const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, two_replicas()));
  CHECK(found.job.activ_p_bytes == 0);
  CHECK(found.job.activ_np_bytes == doctest::Approx(known.activ_np_bytes));
  CHECK(remarked(found, "fewer than the family's part"));
}

TEST_CASE("two TP degrees whose peaks contradict each other fall back to the family's constant") {
  const Cluster c = cluster();
  const JobCoefficients known = known_job({});
  const Plan plan{16, 4, {{4, 2, {replica(4, 0, 0, 2)}}, {4, 2, {replica(4, 1, 0, 2)}}, {4, 4, {replica(4, 2, 0, 4)}}}};
  Profile profile = profile_of(c, known, plan);
  profile.replicas[2].peak_bytes *= 3;  // TP 4 should have fewer activations than TP 2
  const Calibration found = calibrate(c.hardware, c.topology, profile);
  CHECK(remarked(found, "contradict each other"));
  CHECK(found.job.activ_np_bytes == doctest::Approx(5 * known.activ_bytes));
  CHECK(found.job.activ_p_bytes == doctest::Approx(known.activ_p_bytes));
}

TEST_CASE("what is not reported is taken from the shape and remarked") {
  const Cluster c = cluster();
  Profile profile = profile_of(c, known_job({}), two_replicas());
  for (ReplicaProfile& one : profile.replicas) one.gradient_bytes = one.state_bytes = one.peak_bytes = one.optim = 0;
  const Calibration found = calibrate(c.hardware, c.topology, profile);
  const JobCoefficients formula = model_sizes(kShape, {}, 2);
  CHECK(found.job.param_bytes == formula.param_bytes);
  CHECK(found.job.activ_p_bytes == formula.activ_p_bytes);
  CHECK(found.job.memory_assumed);
  CHECK(found.job.gpu[0].optim == 0);
  CHECK(found.job.gpu[0].assumed_optim);
  CHECK(remarked(found, "no sizes of parameters"));
  CHECK(remarked(found, "no memory peak"));
  CHECK(remarked(found, "the optimizer was not timed"));
}

TEST_CASE("frozen edges have state and no gradients; unreported state goes with the gradients as a layer's does") {
  const Cluster c = cluster();
  const JobCoefficients known = known_job({});
  const Plan plan{16, 4, {{6, 1, {replica(4, 0, 0, 1)}}, {6, 1, {replica(4, 1, 0, 1)}}}};
  Profile profile = profile_of(c, known, plan);
  profile.replicas[0].edge_gradient_bytes = 0;
  profile.replicas[1].edge_state_bytes = 0;
  const JobCoefficients found = calibrate(c.hardware, c.topology, profile).job;
  CHECK(found.first.param_bytes == 0);
  CHECK(found.first.param_optim_bytes == doctest::Approx(known.first.param_optim_bytes));
  CHECK(found.last.param_bytes == doctest::Approx(known.last.param_bytes));
  CHECK(found.last.param_optim_bytes ==
        doctest::Approx(known.last.param_bytes * known.param_optim_bytes / known.param_bytes));
}

TEST_CASE("a profile that contradicts its plan is refused") {
  const Cluster c = cluster();
  const Profile good = profile_of(c, known_job({}), two_replicas());
  const auto refused = [&](auto spoil, const char* why) {
    Profile profile = good;
    spoil(profile);
    CHECK_THROWS_WITH_AS(calibrate(c.hardware, c.topology, profile), why, Error);
  };
  refused([](Profile& p) { p.replicas[0].replica = 2; }, "profile: stage 0 replica 2 is not in its plan");
  refused([](Profile& p) { p.replicas[1].stage = 1; }, "profile: stage 1 replica 1 is not in its plan");
  refused([](Profile& p) { p.shape.layers = 13; }, "profile: its plan holds 12 layers, its model has 13");
  refused([](Profile& p) { p.replicas.clear(); }, "profile: no replica reports its forward and backward times");
  refused([](Profile& p) { p.replicas[0].comm_fwd = p.replicas[0].fwd; },
          "profile: stage 0 replica 0: its all-reduces take longer than the pass they are part of");
  refused([](Profile& p) { p.plan.stages[0].replicas[0].share = 1; },
          "stage 0 has shares that sum to 3, the micro-batch has 4 samples");
}
