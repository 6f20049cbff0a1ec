// Sums unit by unit against a link that is simulated one sum after the other.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/unit_sums.hpp"
#include "tests/unit/model_cases.hpp"

using namespace espalier;
using namespace espalier::model_cases;

namespace {

// Backward passes and sums of the head, the layers and the embedding, in this order.
double simulated(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last) {
  struct Unit {
    double work = 0, bytes = 0;
  };
  std::vector<Unit> units;
  const double share = first || job.recompute ? 1 : job.deferred;
  if (last) units.push_back({job.last.compute_layers * share * rates.comp_bwd, job.last.param_bytes});
  for (int i = 0; i < layers; ++i)
    units.push_back({first || job.recompute ? rates.bwd : job.deferred * rates.comp_bwd, job.param_bytes});
  if (first) units.push_back({job.first.compute_layers * share * rates.comp_bwd, job.first.param_bytes});
  double now = 0, link = 0;
  for (const Unit& unit : units) {
    now += unit.work;
    link = std::max(link, now) + unit.bytes * rates.gradient_ms_per_byte;
  }
  return link - now;
}

}  // namespace

TEST_CASE("what the backward pass leaves of sums by unit is what a link leaves that takes one after the other") {
  std::mt19937 random(5);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int round = 0; round < 2000; ++round) {
    JobCoefficients known = job();
    known.sums_by_unit = true;
    known.deferred = draw(0, 1);
    known.recompute = round % 3 == 0;
    known.first = {draw(0, 0.5), draw(0, 3000), 0, 0};
    known.last = {draw(0, 2), draw(0, 3000), 0, 0};
    StageRates rates;
    rates.comp_bwd = draw(1, 10), rates.bwd = rates.comp_bwd + draw(0, 2);
    rates.gradient_ms_per_byte = draw(0.0001, 0.02);
    rates.overlap = 1e12;
    const int layers = 1 + round % 9;
    const bool first = round % 2 == 0, last = round % 5 < 2;
    const double wanted = simulated(known, rates, layers, first, last);
    CHECK(exposed_unit_sums(known, rates, layers, first, last) == doctest::Approx(wanted).epsilon(1e-9));
    // What is not hidden lies between that and all of it, and grows with the link's slowness.
    rates.overlap = 1;
    const double bytes =
        layers * known.param_bytes + (first ? known.first.param_bytes : 0) + (last ? known.last.param_bytes : 0);
    CHECK(exposed_unit_sums(known, rates, layers, first, last) ==
          doctest::Approx(bytes * rates.gradient_ms_per_byte).epsilon(1e-9));
    rates.overlap = 3;
    double before = 0;
    for (const double slower : {0.1, 0.5, 1.0, 2.0, 10.0}) {
      const double now = exposed_unit_sums(known, rates, layers, first, last, slower);
      CHECK(now > before);
      before = now;
    }
  }
}

TEST_CASE("a plan's prediction has the sums by unit, and none without replicas") {
  const Cluster c = cluster();
  JobCoefficients known = job();
  known.sums_by_unit = true;
  known.gpu[0].overlap = 64;
  Plan plan{16, 4, {{12, 1, {replica(2, 0, 0, 1), replica(2, 1, 0, 1)}}}};
  const Prediction two = evaluate_plan(c.hardware, c.topology, known, plan);
  CHECK(two.stages[0].sync > 0);
  CHECK(two.stages[0].sync < two.stages[0].gradients);
  CHECK(two.stages[0].optim == doctest::Approx(12 * 6.0));
  plan.stages[0].replicas = {replica(4, 0, 0, 1)};
  CHECK(evaluate_plan(c.hardware, c.topology, known, plan).stages[0].sync == 0);
}
