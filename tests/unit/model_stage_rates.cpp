// "Modeling TP" and "Modeling DP" of Suika App. A.2 against numbers worked out by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "planner/core/model/degree_factor.hpp"
#include "planner/core/model/stage_rates.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

StageShape shape(int tp, int replicas, int least_members, int level) {
  StageShape result;
  result.classes[0] = {0, 0, replicas};
  result.class_count = 1;
  result.tp = tp;
  result.replicas = replicas;
  result.least_members = least_members;
  result.level = level;
  return result;
}

Shares all(int share, int replicas) {
  Shares result;
  result.most[0] = share;
  result.more[0] = replicas;
  result.feasible = true;
  return result;
}

}  // namespace

TEST_CASE("computation goes with samples and against the TP degree; one GPU communicates nothing") {
  // comp_fwd = k_comp b / t = 3 * 2 / 1 per layer; backward twice that.
  const StageRates rates = stage_rates(cluster().hardware, job(), shape(1, 1, 1, 0), all(2, 1));
  CHECK(rates.fwd == doctest::Approx(6));
  CHECK(rates.bwd == doctest::Approx(12));
  CHECK(rates.comp_fwd == rates.fwd);
  CHECK(rates.optim == doctest::Approx(6));
}

TEST_CASE("what TP does not divide, and what does not depend on the samples, is computed by every rank") {
  // comp_fwd = k_comp (b f / t + fixed) = 3 * (2 * 1.5 / 2 + 0.25)
  JobCoefficients known = job();
  known.degree_factors = {{1, 1}, {2, 1.5}};
  known.fixed_samples = 0.25;
  CHECK(stage_rates(cluster().hardware, known, shape(2, 1, 1, 0), all(2, 1)).comp_fwd == doctest::Approx(5.25));
  CHECK(stage_rates(cluster().hardware, known, shape(1, 1, 1, 0), all(2, 1)).comp_fwd == doctest::Approx(6.75));
  // The same with k_comp told for degree 2: 4.5 a sample, of which 0.25 / 1.5 is fixed.
  const JobCoefficients told = told_for_degree(known, 2);
  CHECK(told.gpu[0].comp == doctest::Approx(4.5));
  CHECK(told.fixed_samples == doctest::Approx(0.25 / 1.5));
  for (const int tp : {1, 2})
    CHECK(stage_rates(cluster().hardware, told, shape(tp, 1, 1, 0), all(2, 1)).comp_fwd ==
          doctest::Approx(stage_rates(cluster().hardware, known, shape(tp, 1, 1, 0), all(2, 1)).comp_fwd));
}

// Against every division of the samples.
TEST_CASE("two types' shares are the best ones, also where a part of the time does not depend on the samples") {
  const Hardware hardware = cluster().hardware;
  StageShape two = shape(1, 2, 1, 0);
  two.classes[0] = {0, 0, 1};
  two.classes[1] = {1, 0, 1};
  two.class_count = 2;
  for (const double fixed : {0.0, 0.5, 1.0, 4.0})
    for (int samples = 2; samples <= 24; ++samples) {
      CAPTURE(fixed);
      CAPTURE(samples);
      JobCoefficients known = job();
      known.fixed_samples = fixed;
      known.gpu[1].backward = known.gpu[0].backward;
      const auto slowest = [&](int first) {
        return std::max(known.gpu[0].comp * (first + fixed), known.gpu[1].comp * (samples - first + fixed));
      };
      double best = slowest(1);
      for (int first = 2; first < samples; ++first) best = std::min(best, slowest(first));
      const Shares shares = balance_shares(hardware, known, two, samples, false);
      REQUIRE(shares.feasible);
      CHECK(shares.most[0] + shares.most[1] == samples);
      CHECK(slowest(shares.most[0]) == doctest::Approx(best));
    }
}

TEST_CASE("a TP group adds two ring all-reduces a layer, at a bandwidth that grows with the logarithm of the message") {
  // t = 2: 2 (1 - 1/2) = 1, so V' = 256 * 2 * 1 = 512 = 16 v0: log2 16 / log2 256 = 1/2 of 128, 64 bytes/ms.
  // V per layer = 2 * 512 = 1024: 16 ms. comp_fwd = 3 * 2 / 2 = 3, comp_bwd = 6.
  const StageRates rates = stage_rates(cluster().hardware, job(), shape(2, 1, 1, 0), all(2, 1));
  CHECK(rates.fwd == doctest::Approx(3 + 16));
  CHECK(rates.bwd == doctest::Approx(6 + 16));
  CHECK(rates.comp_fwd == doctest::Approx(3));
  CHECK(rates.comp_bwd == doctest::Approx(6));
  CHECK(rates.optim == doctest::Approx(3));
}

TEST_CASE("the bandwidth factor stays between a twentieth and one") {
  const Hardware hardware = cluster().hardware;
  CHECK(saturation(hardware, 8192) == 1);
  CHECK(saturation(hardware, 1e9) == 1);
  CHECK(saturation(hardware, 128) == doctest::Approx(2.0 / 8));  // 4 v0
  CHECK(saturation(hardware, 33) == 0.05);                       // log2(33/32) / 8 = 0.0055
  CHECK(saturation(hardware, 1) == 0.05);
}

TEST_CASE("recomputation repeats the forward pass in the backward pass, its all-reduces too") {
  JobCoefficients recomputing = job();
  recomputing.recompute = true;
  const StageRates rates = stage_rates(cluster().hardware, recomputing, shape(2, 1, 1, 0), all(2, 1));
  CHECK(rates.fwd == doctest::Approx(3 + 16));
  CHECK(rates.bwd == doctest::Approx((6 + 16) + (3 + 16)));
}

TEST_CASE("gradients go in one ring per TP rank") {
  const Hardware hardware = cluster().hardware;
  // On one node: 1000 bytes a layer / TP 2 * 2 (1 - 1/2) = 500 bytes at 50 bytes/ms: 10 ms for 1000 bytes.
  CHECK(stage_rates(hardware, job(), shape(2, 2, 2, 0), all(2, 2)).gradient_ms_per_byte ==
        doctest::Approx(10.0 / 1000));
  // Two nodes, one replica each: one rail per GPU, 10 bytes/ms: 50 ms.
  CHECK(stage_rates(hardware, job(), shape(2, 2, 1, 1), all(2, 2)).gradient_ms_per_byte ==
        doctest::Approx(50.0 / 1000));
  // Two nodes with 3 and 1 replicas: 1000 / 2 * 2 (1 - 1/4) = 750 bytes. The node with one member
  // limits the ring.
  CHECK(stage_rates(hardware, job(), shape(2, 4, 1, 1), all(2, 4)).gradient_ms_per_byte ==
        doctest::Approx(75.0 / 1000));
  // Two members each: two rails a ring.
  CHECK(stage_rates(hardware, job(), shape(2, 4, 2, 1), all(2, 4)).gradient_ms_per_byte ==
        doctest::Approx(37.5 / 1000));
  // Across one more switch: half the bandwidth.
  CHECK(stage_rates(hardware, job(), shape(2, 2, 1, 2), all(2, 2)).gradient_ms_per_byte ==
        doctest::Approx(100.0 / 1000));
  CHECK(stage_rates(hardware, job(), shape(2, 1, 1, 0), all(2, 1)).gradient_ms_per_byte == 0);
}

TEST_CASE("a node with fewer rails than GPUs has no more bandwidth than its rails") {
  Hardware hardware = cluster().hardware;
  hardware.kinds[0].nics = 1;
  // Both TP ranks' rings share 10 bytes/ms: 1000 * 2 (1 - 1/2) / 10.
  CHECK(stage_rates(hardware, job(), shape(2, 2, 1, 1), all(2, 2)).gradient_ms_per_byte ==
        doctest::Approx(100.0 / 1000));
}

TEST_CASE("what the backward pass hides of the synchronization follows the overlap exponent") {
  CHECK(exposed_sync(3, 4, 1) == 4);                                        // nothing is hidden
  CHECK(exposed_sync(3, 4, 2) == doctest::Approx(2));                       // sqrt(9 + 16) - 3
  CHECK(exposed_sync(3, 3, 3) == doctest::Approx(3 * std::cbrt(2.0) - 3));  // (27 + 27)^(1/3) - 3
  CHECK(exposed_sync(3, 4, 64) == doctest::Approx(1).epsilon(1e-6));        // all that can be
  CHECK(exposed_sync(4, 3, 64) == doctest::Approx(0).epsilon(1e-6));
  CHECK(exposed_sync(3, 0, 1) == 0);
  CHECK(exposed_sync(0, 4, 2) == 4);
  double before = 4;
  for (double k = 1.5; k <= 64; k *= 1.3) {
    const double now = exposed_sync(3, 4, k);
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("ZeRO-1 hides only the scattering half and shares the optimizer's work") {
  JobCoefficients sharded = job();
  sharded.zero1 = true;
  sharded.gpu[0].overlap = 2;
  // Half of 8 is partly hidden behind 3. The other half is exposed.
  CHECK(exposed_gradients(sharded, 3, 8, 2) == doctest::Approx(2 + 4));
  const StageRates rates = stage_rates(cluster().hardware, sharded, shape(1, 3, 3, 0), all(2, 3));
  CHECK(rates.optim == doctest::Approx(6.0 / 3));
}

TEST_CASE("ZeRO-1 gathers parameters, not gradients, and scatters no integers") {
  JobCoefficients sharded = job();
  sharded.zero1 = true;
  sharded.weight_bytes = 500;  // bfloat16 parameters, float32 gradients
  CHECK(exposed_gradients(sharded, 3, 8, 2) == doctest::Approx(2 + 2));
  sharded.weight_bytes = 500, sharded.integer_sums = true;
  // All of 4 is partly hidden behind 3; the gather takes a quarter of it.
  CHECK(exposed_gradients(sharded, 3, 4, 2) == doctest::Approx(2 + 1));
}

TEST_CASE("replicas of several types: the slowest forward and the slowest backward pass count, and its overlap") {
  JobCoefficients mixed = job();
  mixed.gpu[0].overlap = 2;
  mixed.gpu[1].overlap = 5;
  StageShape two = shape(1, 2, 1, 1);
  two.classes[0].replicas = 1;
  two.classes[1] = {1, 0, 1};
  two.class_count = 2;
  Shares shares = all(5, 1);
  shares.most[1] = 1;
  // fast: 3 * 5 = 15 and 30; slow: 9 * 1 = 9 and 22.5.
  StageRates rates = stage_rates(cluster().hardware, mixed, two, shares);
  CHECK(rates.fwd == doctest::Approx(15));
  CHECK(rates.bwd == doctest::Approx(30));
  CHECK(rates.overlap == 2);
  CHECK(rates.optim == doctest::Approx(18));
  // slow with 3 samples: 27 and 67.5.
  shares.most[1] = 3;
  rates = stage_rates(cluster().hardware, mixed, two, shares);
  CHECK(rates.fwd == doctest::Approx(27));
  CHECK(rates.bwd == doctest::Approx(67.5));
  CHECK(rates.overlap == 5);
}
