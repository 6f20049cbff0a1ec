// When coefficients count as stable, and what several generations together say.
#include <doctest/doctest.h>

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

void fill(CoefficientWindow& window, const JobCoefficients& job) {
  for (int i = 0; i < 8; ++i) window.add(job);
}

}  // namespace

TEST_CASE("eight profiles within two percent are stable, and their means count") {
  CoefficientWindow window;
  CHECK_FALSE(window.coefficients().has_value());
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(window.stable());
    window.add(measured(i % 2 == 0 ? 2.98 : 3.02));  // 0.04 / 3 = 1.3%
  }
  CHECK(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == doctest::Approx(3.0));
  CHECK(window.coefficients()->gpu[0].overlap == doctest::Approx(2.0));
}

TEST_CASE("one coefficient that moves by more than two percent holds the window open until it has left") {
  CoefficientWindow window;
  window.add(measured(3.07));
  for (int i = 0; i < 7; ++i) window.add(measured(3));
  CHECK_FALSE(window.stable());
  CHECK(window.coefficients()->gpu[0].comp == 3);  // the latest, for want of anything better
  window.add(measured(3));
  CHECK(window.stable());

  for (const int which : {0, 1, 2, 3, 4}) {
    CoefficientWindow other;
    for (int i = 0; i < 8; ++i) {
      JobCoefficients job = measured(3);
      const double factor = i == 4 ? 1.03 : 1;
      if (which == 0) job.activ_bytes *= factor;
      if (which == 1) job.gpu[1].optim *= factor;
      if (which == 2) job.activ_p_bytes *= factor;
      if (which == 3) job.gpu[0].overlap = i == 4 ? 2.2 : 2;  // 1 / 2 - 1 / 2.2 = 0.045
      if (which == 4) job.last.param_bytes = 1000 * factor;
      other.add(job);
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
    window.add(job);
  }
  CHECK(window.stable());
  // 1 / mean(1/40, 1/64).
  CHECK(window.coefficients()->gpu[0].overlap == doctest::Approx(2 / (1.0 / 40 + 1.0 / 64)));
}

TEST_CASE("a new generation fills a window of its own, and until then the settled coefficients stand") {
  CoefficientWindow window;
  fill(window, measured(3));
  window.start_generation();
  CHECK_FALSE(window.stable());
  window.add(measured(5));
  CHECK(window.coefficients()->gpu[0].comp == doctest::Approx(3));
  for (int i = 0; i < 7; ++i) window.add(measured(5));
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
  CHECK(result.first.compute_layers == 0.5);
}
