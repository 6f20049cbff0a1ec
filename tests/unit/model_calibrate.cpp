// Inversion: a profile made from known coefficients gives them back.
#include <doctest/doctest.h>

#include "tests/unit/model_profiles.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

constexpr double kPrecise = 1e-6;

void check_sizes(const JobCoefficients& found, const JobCoefficients& known) {
  const auto same = [](double a, double b) { return a == doctest::Approx(b).epsilon(kPrecise); };
  CHECK(same(found.param_bytes, known.param_bytes));
  CHECK(same(found.weight_bytes, known.weight_bytes));
  CHECK(same(found.param_optim_bytes, known.param_optim_bytes));
  CHECK(same(found.activ_bytes, known.activ_bytes));
  CHECK(same(found.activ_np_bytes, known.activ_np_bytes));
  CHECK(same(found.activ_p_bytes, known.activ_p_bytes));
  CHECK(same(found.first.param_bytes, known.first.param_bytes));
  CHECK(same(found.last.param_bytes, known.last.param_bytes));
  CHECK(same(found.first.param_optim_bytes, known.first.param_optim_bytes));
  CHECK(same(found.last.param_optim_bytes, known.last.param_optim_bytes));
  CHECK(same(found.tied_bytes, known.tied_bytes));
  CHECK(same(found.deferred, known.deferred));
}

void check_type(const JobCoefficients& found, const JobCoefficients& known, std::size_t type, bool synchronizes) {
  CHECK(found.gpu[type].comp == doctest::Approx(known.gpu[type].comp).epsilon(kPrecise));
  CHECK(found.gpu[type].backward == doctest::Approx(known.gpu[type].backward).epsilon(kPrecise));
  CHECK(found.gpu[type].optim == doctest::Approx(known.gpu[type].optim).epsilon(kPrecise));
  CHECK_FALSE(found.gpu[type].assumed_comp);
  CHECK_FALSE(found.gpu[type].assumed_backward);
  CHECK_FALSE(found.gpu[type].assumed_optim);
  CHECK(found.gpu[type].assumed_overlap == !synchronizes);
  CHECK(found.gpu[type].overlap == doctest::Approx(synchronizes ? known.gpu[type].overlap : 1).epsilon(kPrecise));
}

struct Configuration {
  std::string what;
  Plan plan;
};

// All stages are on the even, fast nodes.
std::vector<Configuration> configurations() {
  const auto stage = [](int layers, int tp, int dp, int share, int node) {
    Stage result{layers, tp, {}};
    for (int j = 0; j < dp; ++j) result.replicas.push_back(replica(share, node, j * tp, tp));
    return result;
  };
  return {
      {"three stages, DP 2, TP 2", {16, 4, {stage(5, 2, 2, 2, 0), stage(4, 2, 2, 2, 2), stage(3, 2, 2, 2, 0 + 4)}}},
      {"TP 1", {16, 4, {stage(5, 1, 2, 2, 0), stage(4, 1, 2, 2, 2), stage(3, 1, 2, 2, 4)}}},
      {"DP 1", {16, 4, {stage(5, 2, 1, 4, 0), stage(4, 2, 1, 4, 2), stage(3, 2, 1, 4, 4)}}},
      {"two stages, degrees differ", {16, 8, {stage(7, 4, 1, 2, 0), stage(5, 1, 2, 1, 2)}}},
      {"PP 1", {16, 4, {stage(12, 2, 4, 1, 0)}}},
      {"PP 1, one GPU", {16, 4, {stage(12, 1, 1, 4, 0)}}},
      {"one micro-batch", {16, 1, {stage(6, 2, 2, 8, 0), stage(6, 2, 2, 8, 2)}}},
      {"one micro-batch, PP 1", {16, 1, {stage(12, 1, 2, 8, 0)}}},
  };
}

}  // namespace

TEST_CASE("a profile gives back the coefficients that it was made from, whatever the configuration") {
  Cluster c = cluster(6, true);
  c.hardware.kinds[0].tp_bandwidth = 3e6;
  c.hardware.kinds[0].dp_bandwidth = 1.5e5;
  c.hardware.kinds[0].nic_bandwidth = 5e4;
  c.hardware.v0 = 1e3;
  c.hardware.v_sat = 1e6;
  for (const bool zero1 : {false, true})
    for (const bool recompute : {false, true})
      for (const bool tied : {false, true})
        for (const Configuration& one : configurations()) {
          CAPTURE(one.what);
          CAPTURE(zero1);
          CAPTURE(recompute);
          CAPTURE(tied);
          JobCoefficients known = known_job({{}, tied, recompute, zero1});
          known.deferred = recompute ? 0 : 0.4;
          const bool pipeline = one.plan.stages.size() > 1;
          // The tied table shows only in a stage with both ends. Without a boundary, k_activ is the
          // formula's.
          if (pipeline) known.tied_bytes = 0;
          if (!pipeline) {
            known.activ_bytes = model_sizes(kShape, {}, 2).activ_bytes;
            known.activ_np_bytes = 5 * known.activ_bytes;
          }
          bool synchronizes = false;
          for (const Stage& stage : one.plan.stages) synchronizes = synchronizes || stage.replicas.size() > 1;
          const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, one.plan));
          check_sizes(found.job, known);
          check_type(found.job, known, 0, synchronizes);
          CHECK(found.job.boundary_assumed == !pipeline);
          CHECK_FALSE(found.job.memory_assumed);
          CHECK(found.doubts.empty());
          // fast has 3 times the TFLOPS of slow, and 3 times its memory bandwidth.
          CHECK(found.job.gpu[1].comp == doctest::Approx(3 * known.gpu[0].comp).epsilon(kPrecise));
          CHECK(found.job.gpu[1].optim == doctest::Approx(3 * known.gpu[0].optim).epsilon(kPrecise));
          CHECK(found.job.gpu[1].backward == doctest::Approx(known.gpu[0].backward).epsilon(kPrecise));
          CHECK(found.job.gpu[1].overlap == found.job.gpu[0].overlap);
          CHECK(found.job.gpu[1].assumed_comp);
          CHECK(found.job.gpu[1].assumed_backward);
          CHECK(found.job.gpu[1].assumed_optim);
          CHECK(found.job.gpu[1].assumed_overlap);
        }
}

TEST_CASE("integers are recognized by their bytes, and what they take of memory is no activation") {
  Cluster c = cluster(6, true);
  c.hardware.kinds[0].tp_bandwidth = 3e6;
  c.hardware.kinds[0].dp_bandwidth = 1.5e5;
  c.hardware.kinds[0].nic_bandwidth = 5e4;
  for (const bool zero1 : {false, true})
    for (const Configuration& one : configurations()) {
      CAPTURE(one.what);
      Training training;
      training.zero1 = zero1;
      training.integer_sums = true;
      JobCoefficients known = known_job(training);
      const bool pipeline = one.plan.stages.size() > 1;
      if (!pipeline) {
        known.activ_bytes = model_sizes(kShape, {}, 2).activ_bytes;
        known.activ_np_bytes = 5 * known.activ_bytes;
      }
      bool synchronizes = false;
      for (const Stage& stage : one.plan.stages) synchronizes = synchronizes || stage.replicas.size() > 1;
      const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, one.plan));
      CHECK(found.job.integer_sums);
      check_sizes(found.job, known);
      check_type(found.job, known, 0, synchronizes);
      CHECK(found.doubts.empty());
    }
}

TEST_CASE("of sums by unit, a long one tells how much is hidden, a short one nothing, and a longer one the link") {
  Cluster c = cluster(6);
  Training training;
  training.sums_by_unit = true;
  JobCoefficients known = known_job(training);
  const Stage first{7, 1, {replica(2, 0, 0, 1), replica(2, 1, 0, 1)}},
      last{5, 1, {replica(2, 2, 0, 1), replica(2, 3, 0, 1)}};
  const Plan plan{16, 4, {first, last}};
  for (const double overlap : {1.0, 4.0, 64.0}) {
    known.gpu[0].overlap = overlap;
    c.hardware.kinds[0].nic_bandwidth = 1e6;  // the sums take about as long as the backward pass
    const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, plan));
    CHECK_FALSE(found.job.gpu[0].assumed_overlap);
    CHECK(found.job.gpu[0].overlap == doctest::Approx(overlap).epsilon(0.01));
    CHECK(found.doubts.empty());
    Cluster fast = c;
    fast.hardware.kinds[0].nic_bandwidth = 1e9;
    const Calibration little = calibrate(fast.hardware, fast.topology, profile_of(fast, known, plan));
    CHECK(little.job.gpu[0].assumed_overlap);
    CHECK(little.job.gpu[0].overlap == 64);
  }
  known.gpu[0].overlap = 64;
  Cluster slow = c;
  slow.hardware.kinds[0].nic_bandwidth = 2e5;
  const Calibration longer = calibrate(c.hardware, c.topology, profile_of(slow, known, plan));
  CHECK_FALSE(longer.doubts.empty());
  CHECK_FALSE(longer.job.assumed_rail);
}

TEST_CASE("types that run together are each calibrated on their own") {
  Cluster c = cluster(6, true);
  c.hardware.kinds[0].tp_bandwidth = 3e6;
  c.hardware.kinds[0].dp_bandwidth = 1.5e5;
  c.hardware.kinds[0].nic_bandwidth = 5e4;
  const JobCoefficients known = known_job({});
  // A mixed stage that its slow type limits, and two stages of one type each.
  const Plan plan{16,
                  4,
                  {{4, 2, {replica(3, 0, 0, 2), replica(1, 2, 0, 2)}},
                   {4, 2, {replica(2, 1, 0, 2), replica(2, 4, 0, 2)}},
                   {4, 1, {replica(2, 3, 0, 1), replica(2, 3, 1, 1)}}}};
  const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, plan));
  check_type(found.job, known, 0, true);
  check_type(found.job, known, 1, true);
  check_sizes(found.job, known);
}

TEST_CASE("the overlap exponent is found at both ends of its range") {
  Cluster c = cluster(6);
  JobCoefficients known = known_job({});
  const Plan plan{16, 4, {{12, 1, {replica(2, 0, 0, 1), replica(2, 0, 1, 1)}}}};
  const PlacedPlan placed = place_plan(c.topology, plan);
  for (const double overlap : {1.0, 1.0001, 63.9, 64.0}) {
    known.gpu[0].overlap = overlap;
    // The synchronization is as long as the backward pass. Otherwise large exponents cannot be told
    // apart.
    const double bwd = evaluate_plan(c.hardware, known, placed).stages[0].time.bwd;
    c.hardware.kinds[0].dp_bandwidth = stage_load(known, 12, true, true).gradient_bytes / bwd;
    const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, plan));
    CHECK(found.job.gpu[0].overlap == doctest::Approx(overlap).epsilon(1e-6));
    CHECK_FALSE(found.job.gpu[0].assumed_overlap);
    CHECK(found.doubts.empty());
  }
}

TEST_CASE("what the edges compute is seen where an inner stage runs on the same type") {
  const Cluster c = cluster(6);
  JobCoefficients known = known_job({});
  known.first.compute_layers = 0.25;
  known.last.compute_layers = 1.75;
  const Plan plan{16, 4, {{5, 1, {replica(4, 0, 0, 1)}}, {4, 1, {replica(4, 1, 0, 1)}}, {3, 1, {replica(4, 2, 0, 1)}}}};
  const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, plan));
  CHECK(found.job.first.compute_layers == doctest::Approx(0.25).epsilon(1e-6));
  CHECK(found.job.last.compute_layers == doctest::Approx(1.75).epsilon(1e-6));
  CHECK_FALSE(found.job.last.assumed_compute);
}

TEST_CASE("two TP degrees give both parts of the activations without the family's constant") {
  const Cluster c = cluster(6);
  JobCoefficients known = known_job({});
  known.activ_np_bytes = 9 * known.activ_bytes;
  const Plan plan{16, 4, {{4, 2, {replica(4, 0, 0, 2)}}, {4, 2, {replica(4, 1, 0, 2)}}, {4, 4, {replica(4, 2, 0, 4)}}}};
  const Calibration found = calibrate(c.hardware, c.topology, profile_of(c, known, plan));
  CHECK(found.job.activ_np_bytes == doctest::Approx(known.activ_np_bytes).epsilon(1e-6));
  CHECK(found.job.activ_p_bytes == doctest::Approx(known.activ_p_bytes).epsilon(1e-6));
}
