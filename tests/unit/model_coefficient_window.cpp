// When coefficients are stable, and their values after several generations.
#include <doctest/doctest.h>

#include <cmath>

#include "planner/core/model/coefficient_window.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;

namespace {

JobCoefficients measured(double comp, bool second_type = false) {
  JobCoefficients job = model_cases::job();
  job.gpu[0] = {comp, 2, 6, 2, false, false, false, false};
  job.gpu[1] = {3 * comp, 2, 18, 2, !second_type, !second_type, !second_type, !second_type};
  return job;
}

// Gradients take 10 ms. k_overlap says how much of this the backward pass hides.
double iteration(const JobCoefficients& job) {
  const GpuCoefficients& gpu = job.gpu[0];
  return (12 + job.last.compute_layers) * gpu.comp * (1 + gpu.backward) + gpu.optim * 12 + 10 / gpu.overlap;
}

void add(CoefficientWindow& window, const JobCoefficients& job) { window.add(job, iteration); }
void fill(CoefficientWindow& window, const JobCoefficients& job) {
  for (int i = 0; i < 8; ++i) add(window, job);
}

}  // namespace

TEST_CASE("eight profiles within two percent are stable, and their means count") {
  CoefficientWindow window;
  CHECK_FALSE(window.coefficients().has_value());
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(window.stable());
    add(window, measured(i % 2 == 0 ? 2.98 : 3.02));  // 0.04 / 3 = 1.3%
  }
  CHECK(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == doctest::Approx(3.0));
  CHECK(window.coefficients()->gpu[0].overlap == doctest::Approx(2.0));
}

TEST_CASE("one coefficient that moves by more than two percent holds the window open until it has left") {
  CoefficientWindow window;
  add(window, measured(3.2));
  for (int i = 0; i < 7; ++i) add(window, measured(3));
  CHECK_FALSE(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == 3);  // the latest, since no window is stable
  add(window, measured(3));
  CHECK(window.stable());

  for (const int which : {0, 1, 2, 3, 4}) {
    CoefficientWindow other;
    for (int i = 0; i < 8; ++i) {
      JobCoefficients job = measured(3);
      const double factor = i == 4 ? 1.03 : 1;
      if (which == 0) job.activ_bytes *= factor;
      if (which == 1) job.gpu[0].backward *= 1 + 2 * (factor - 1);
      if (which == 2) job.activ_p_bytes *= factor;
      if (which == 3) job.gpu[0].overlap = i == 4 ? 64 : 1;  // 9.8 of about 190 ms
      if (which == 4) job.last.param_bytes = 1000 * factor;
      add(other, job);
    }
    CAPTURE(which);
    CHECK_FALSE(other.stable());
  }
}

TEST_CASE("large overlap exponents need not agree, nor what an edge adds to within a fiftieth of the model") {
  CoefficientWindow window;
  for (int i = 0; i < 8; ++i) {
    JobCoefficients job = measured(3);
    job.gpu[0].overlap = i % 2 == 0 ? 40 : 64;
    job.last.compute_layers = i % 2 == 0 ? 0.0 : 0.2;  // of 12 layers
    add(window, job);
  }
  CHECK(window.stable());
  // 1 / mean(1/40, 1/64).
  CHECK(window.coefficients()->gpu[0].overlap == doctest::Approx(2 / (1.0 / 40 + 1.0 / 64)));
}

TEST_CASE("speeds that hardly show in the iteration need not agree, sizes must") {
  CoefficientWindow window;
  for (int i = 0; i < 8; ++i) {
    JobCoefficients job = measured(10);  // 370 ms
    job.gpu[0].overlap = i % 2 == 0 ? 1.5 : 3;
    job.gpu[0].optim = i % 2 == 0 ? 0.9 : 1.1;
    job.gpu[1].comp *= i % 2 == 0 ? 1 : 2;  // the plan does not use this type
    add(window, job);
  }
  CHECK(window.stable());
  CHECK(window.coefficients()->gpu[0].overlap == doctest::Approx(2));  // 1 / mean(2/3, 1/3)
  CHECK(window.coefficients()->gpu[0].optim == doctest::Approx(1));

  CoefficientWindow sizes;
  for (int i = 0; i < 8; ++i) {
    JobCoefficients job = measured(10);
    job.param_bytes *= i % 2 == 0 ? 1 : 1.05;  // iteration() does not use it
    add(sizes, job);
  }
  CHECK_FALSE(sizes.stable());
}

TEST_CASE("an iteration that is not a number is no agreement") {
  CoefficientWindow window;
  for (int i = 0; i < 8; ++i)
    window.add(measured(i % 2 == 0 ? 3 : 4), [](const JobCoefficients&) { return std::nan(""); });
  CHECK_FALSE(window.stable());
}

TEST_CASE("a new generation fills a window of its own, and until then the settled coefficients stand") {
  CoefficientWindow window;
  fill(window, measured(3));
  window.start_generation();
  CHECK_FALSE(window.stable());
  add(window, measured(5));
  CHECK(window.coefficients()->gpu[0].comp == doctest::Approx(3));
  for (int i = 0; i < 7; ++i) add(window, measured(5));
  CHECK(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == doctest::Approx(5));
}

TEST_CASE("a type that runs replaces its assumption, and no assumption replaces what was measured") {
  CoefficientWindow window;
  fill(window, measured(3));
  CHECK(window.coefficients()->gpu[1].assumed_comp);
  window.start_generation();
  JobCoefficients both = measured(3, true);
  both.gpu[1].comp = 7;
  fill(window, both);
  CHECK(window.coefficients()->gpu[1].comp == doctest::Approx(7));
  CHECK_FALSE(window.coefficients()->gpu[1].assumed_comp);
  window.start_generation();
  JobCoefficients later = measured(4);
  later.boundary_assumed = later.memory_assumed = true;
  later.activ_bytes = 1, later.activ_p_bytes = 2, later.activ_np_bytes = 3;
  fill(window, later);
  const JobCoefficients now = *window.coefficients();
  CHECK(now.gpu[0].comp == doctest::Approx(4));
  CHECK(now.gpu[1].comp == doctest::Approx(7));
  CHECK_FALSE(now.gpu[1].assumed_optim);
  CHECK(now.activ_bytes == 256);
  CHECK(now.activ_p_bytes == 400);
  CHECK_FALSE(now.memory_assumed);
}

TEST_CASE("refining goes value by value") {
  JobCoefficients known = measured(3, true), fresh = measured(4, true);
  known.first.assumed_compute = false;
  known.first.compute_layers = 0.5;
  fresh.gpu[0].assumed_overlap = true;
  fresh.gpu[0].overlap = 1;
  const JobCoefficients result = refine(known, fresh);
  CHECK(result.gpu[0].comp == 4);
  CHECK(result.gpu[0].overlap == 2);
  CHECK_FALSE(result.gpu[0].assumed_overlap);
  known.sync_beyond = 7;
  CHECK(refine(known, fresh).sync_beyond == 7);  // as the overlap: it was not seen again
  fresh.gpu[0].assumed_overlap = false;
  CHECK(refine(known, fresh).sync_beyond == 0);
  CHECK(result.first.compute_layers == 0.5);
}

TEST_CASE("an overlap of another kind of synchronization is neither kept nor averaged") {
  JobCoefficients known = measured(3, true), fresh = measured(4, true);
  known.gpu[0].overlap = 2;
  fresh.sums_by_unit = true;  // `known` is a record of a version that knew no sums by unit
  fresh.gpu[0].overlap = 64;
  fresh.gpu[0].assumed_overlap = true;
  CHECK(refine(known, fresh).gpu[0].overlap == 64);
  CHECK(refine(known, fresh).gpu[0].assumed_overlap);
  CHECK(refine(known, fresh).gpu[0].comp == 4);
  fresh.gpu[0].assumed_overlap = false;
  fresh.gpu[0].overlap = 8;
  CHECK(blend(known, fresh, 0.5).gpu[0].overlap == 8);
  known.sums_by_unit = true;
  CHECK(blend(known, fresh, 0.5).gpu[0].overlap == doctest::Approx(3.2));
}

TEST_CASE("the links' bandwidth stays known until it is measured again") {
  JobCoefficients known = measured(3, true), fresh = measured(4, true);
  known.assumed_rail = false;
  known.rail_ms_per_byte = 4e-5;
  fresh.assumed_rail = true;
  fresh.rail_ms_per_byte = 9e-5;  // other jobs' figure
  for (const JobCoefficients& result : {refine(known, fresh), blend(known, fresh, 0.5)}) {
    CHECK(result.rail_ms_per_byte == 4e-5);
    CHECK_FALSE(result.assumed_rail);
  }
  fresh.assumed_rail = false;
  fresh.rail_ms_per_byte = 0;  // as fast as the site says
  CHECK(refine(known, fresh).rail_ms_per_byte == 0);
  CHECK(blend(known, fresh, 0.5).rail_ms_per_byte == doctest::Approx(2e-5));
}

TEST_CASE("one calm profile is enough, and one that is not calm changes nothing that is settled") {
  CoefficientWindow window;
  window.add_told(measured(4), false);
  CHECK_FALSE(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == 4);  // for records
  window.add_told(measured(3), true);
  CHECK(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == 3);
  window.add_told(measured(5), false);
  CHECK(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == 3);
  CHECK(window.latest()->gpu[0].comp == 5);
  window.start_generation();
  CHECK_FALSE(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == 3);
}

// Such a job never grew: each of its profiles was for itself too uncertain.
TEST_CASE("where no profile is calm, the mean of many counts, once it is known well enough") {
  const auto told_until_stable = [](double deviation) {
    CoefficientWindow window;
    for (int i = 0; i < 200; ++i) {
      window.add_told(measured(i % 2 == 0 ? 4 - deviation : 4 + deviation), false);
      if (window.stable()) {
        CHECK(window.coefficients()->gpu[0].comp == doctest::Approx(4).epsilon(0.05));
        return i + 1;
      }
    }
    return 0;
  };
  CHECK(told_until_stable(0.1) == 8);
  const int many = told_until_stable(0.6);
  CHECK(many > 16);
  CHECK(many < 40);
  CHECK(told_until_stable(3) == 0);
  CoefficientWindow window;
  for (int i = 0; i < 8; ++i) window.add_told(measured(4), false);
  window.add_told(measured(3), true);  // a calm one counts more
  CHECK(window.coefficients()->gpu[0].comp == 3);
  for (int i = 0; i < 64; ++i) window.add_told(measured(4), false);
  CHECK(window.coefficients()->gpu[0].comp == 3);
  window.start_generation();
  CHECK_FALSE(window.stable());
}

TEST_CASE("recalled coefficients count until a calm profile, and then where it has only assumptions") {
  CoefficientWindow window;
  window.recall(measured(2, true));
  CHECK_FALSE(window.stable());
  window.add_told(measured(9), false);
  CHECK(window.coefficients()->gpu[0].comp == 2);
  window.add_told(measured(3), true);
  CHECK(window.coefficients()->gpu[0].comp == 3);
  CHECK(window.coefficients()->gpu[1].comp == 6);  // 3 times 2: it runs on the first type only
  CHECK_FALSE(window.coefficients()->gpu[1].assumed_comp);
}

TEST_CASE("blending takes the mean of what was measured twice, and what was measured once as it is") {
  JobCoefficients known = measured(3, true), fresh = measured(4);
  fresh.param_bytes = 5;
  fresh.gpu[0].overlap = 4;  // 1/4, known: 1/2
  const JobCoefficients half = blend(known, fresh, 0.5);
  CHECK(half.gpu[0].comp == doctest::Approx(3.5));
  CHECK(half.gpu[0].overlap == doctest::Approx(1 / 0.375));
  CHECK(half.gpu[1].comp == doctest::Approx(9));
  CHECK_FALSE(half.gpu[1].assumed_comp);
  CHECK(half.param_bytes == 5);
  CHECK(blend(known, fresh, 1).gpu[0].comp == doctest::Approx(4));
}

TEST_CASE("times that contain a layer's fixed part have no mean with times beside which it is told") {
  JobCoefficients without = measured(3), with = measured(2);
  with.degree_factors = {{1, 1}, {2, 1.2}};
  with.fixed_samples = 0.5;
  for (const JobCoefficients& result : {blend(without, with, 0.1), blend(with, without, 0.1)}) {
    CHECK(result.gpu[0].comp == 2);
    CHECK(result.fixed_samples == 0.5);
    CHECK(result.degree_factors == with.degree_factors);
  }
  JobCoefficients again = with;
  again.gpu[0].comp = 4;
  again.fixed_samples = 0.1;
  const JobCoefficients half = blend(with, again, 0.5);
  CHECK(half.gpu[0].comp == doctest::Approx(3));
  CHECK(half.fixed_samples == doctest::Approx(0.3));
}
