// Peak memory of Suika App. A.3 against numbers worked out by hand.
#include <doctest/doctest.h>

#include "planner/core/model/memory.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;

namespace {

// Per layer: gradients 4, parameters + optimizer 12 (parameters 4), activations 10 / TP + 3 a sample; boundary 1.
JobCoefficients small() {
  JobCoefficients job = model_cases::job();
  job.param_bytes = 4;
  job.param_optim_bytes = 12;
  job.weight_bytes = 4;
  job.activ_p_bytes = 10;
  job.activ_np_bytes = 3;
  job.activ_bytes = 1;
  return job;
}

// Stage 1 of 4: 3 layers, 2 samples, TP 2, DP 2.
MemoryParts at(const JobCoefficients& job, int micro_batches) {
  return peak_memory(job, 3, 2, 2, 2, {1, 4, micro_batches});
}

}  // namespace

TEST_CASE("in the steady state gradients stand beside the activations of all micro-batches in flight") {
  // In flight: min(4 - 1, 8) = 3. Mp = 12 * 3 / 2 = 18; Mg = 4 * 3 / 2 = 6; Ma = 2 * 3 * 3 * (10 / 2 + 3) = 144.
  const MemoryParts parts = at(small(), 8);
  CHECK(parts.param_optim == doctest::Approx(18));
  CHECK(parts.gradients == doctest::Approx(6));
  CHECK(parts.activations == doctest::Approx(144));
  CHECK(parts.edge == 0);
  CHECK(parts.peak == doctest::Approx(168));
}

TEST_CASE("gradients are held from the start: they stand beside the activations also of few micro-batches") {
  CHECK(at(small(), 3).peak == doctest::Approx(18 + 144 + 6));
  // Two micro-batches: 2 in flight, 96.
  CHECK(at(small(), 2).peak == doctest::Approx(18 + 96 + 6));
}

TEST_CASE("an integer gradient of eight bytes stands beside a float of four") {
  JobCoefficients job = small();
  job.first.param_bytes = 20;
  const MemoryParts floats = at(job, 8);
  const double edge = peak_memory(job, 3, 2, 2, 2, {0, 4, 8}).edge;
  job.integer_sums = true;
  CHECK(at(job, 8).gradients == doctest::Approx(1.5 * floats.gradients));
  CHECK(at(job, 8).peak == doctest::Approx(floats.peak + 3));
  CHECK(peak_memory(job, 3, 2, 2, 2, {0, 4, 8}).edge == doctest::Approx(edge + 5));
}

TEST_CASE("ZeRO-1 shards what is no parameter; recomputation keeps inputs and one layer") {
  JobCoefficients job = small();
  job.zero1 = true;
  CHECK(at(job, 8).param_optim == doctest::Approx((4 + 8.0 / 2) * 3 / 2));
  job = small();
  job.recompute = true;
  // 2 samples * 3 layers * 3 in flight * 1, and one layer of 2 * (5 + 3).
  CHECK(at(job, 8).activations == doctest::Approx(18 + 16));
}

TEST_CASE("the edges add their state, gradients and one micro-batch's logits; what is tied counts once") {
  JobCoefficients job = small();
  job.first.param_bytes = 20;
  job.first.param_optim_bytes = 60;
  job.last.param_bytes = 16;
  job.last.param_optim_bytes = 48;
  job.last.activation_bytes = 7;
  job.tied_bytes = 64;
  // First: (20 + 60) / 2. Last: (16 + 48 + 7 * 2) / 2.
  CHECK(peak_memory(job, 3, 2, 2, 2, {0, 4, 8}).edge == doctest::Approx(40));
  CHECK(peak_memory(job, 3, 2, 2, 2, {3, 4, 8}).edge == doctest::Approx(39));
  CHECK(peak_memory(job, 3, 2, 2, 2, {0, 1, 8}).edge == doctest::Approx(40 + 39 - 32));
  // ZeRO-1 over 2: a third of the state is parameters. First: (20 + 40 / 2 + 20) / 2.
  job.zero1 = true;
  CHECK(peak_memory(job, 3, 2, 2, 2, {0, 4, 8}).edge == doctest::Approx((20 + 20 + 20) / 2.0));
}

TEST_CASE("the layer cap is the last count that fits every type") {
  const Hardware hardware = [] {
    Hardware result = model_cases::cluster().hardware;
    result.types[0].memory_bytes = 1000;
    result.types[1].memory_bytes = 400;
    return result;
  }();
  const JobCoefficients job = small();
  StageShape shape;
  shape.classes[0] = {0, 0, 1};
  shape.classes[1] = {1, 0, 1};
  shape.class_count = 2;
  shape.tp = 2;
  shape.replicas = 2;
  Shares shares;
  shares.feasible = true;
  shares.most = {2, 1};
  for (const int micro_batches : {1, 2, 3, 8}) {
    const StagePosition position{1, 4, micro_batches};
    const int cap = layer_cap(hardware, job, shape, shares, position);
    const auto fits = [&](int layers) {
      return peak_memory(job, layers, 2, 2, 2, position).peak <= 900 * (1 + 1e-9) &&
             peak_memory(job, layers, 1, 2, 2, position).peak <= 360 * (1 + 1e-9);
    };
    CHECK(cap > 0);
    CHECK(fits(cap));
    CHECK((cap == job.layers || !fits(cap + 1)));
  }
}
