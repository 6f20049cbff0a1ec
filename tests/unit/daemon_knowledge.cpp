// What jobs have taught, as rows of knowledge: whom a row is for, its means, and what is read out of it later.
#include <doctest/doctest.h>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/model/roofline.hpp"
#include "planner/daemon/knowledge.hpp"
#include "tests/unit/learning_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using namespace espalier::learning_cases;

TEST_CASE("a mean of few values is exact, one of many follows the newest") {
  Estimate estimate;
  CHECK(estimate.spread() == 0);
  estimate.add(1);
  CHECK(estimate.spread() == 0);
  estimate.add(3);
  CHECK(estimate.count == 2);
  CHECK(estimate.mean == doctest::Approx(2));
  CHECK(estimate.spread() == doctest::Approx(0.5));
  for (int i = 0; i < 500; ++i) estimate.add(10);
  CHECK(estimate.mean == doctest::Approx(10));
  CHECK(estimate.spread() < 0.001);
}

TEST_CASE("jobs are alike when model, batch, accuracy and setting are; the user's micro-batches do not matter") {
  const ElasticJob one = training(10);
  const auto differs = [&](auto change) {
    ElasticJob other = training(11, "n2");
    change(other);
    return description(other) != description(one);
  };
  CHECK_FALSE(differs([](ElasticJob&) {}));
  CHECK_FALSE(differs([](ElasticJob& job) { job.model.micro_batches = 8; }));
  CHECK(differs([](ElasticJob& job) { job.model.hidden = 128; }));
  CHECK(differs([](ElasticJob& job) { job.model.global_batch = 32; }));
  CHECK(differs([](ElasticJob& job) { job.accuracy = Accuracy::relaxed; }));
  CHECK(differs([](ElasticJob& job) { job.model.setting->precision = "bfloat16"; }));
  CHECK(differs([](ElasticJob& job) { job.model.setting->runtime = "torch 2.12.0"; }));
  CHECK(differs([](ElasticJob& job) { job.model.setting->zero1 = true; }));
  CHECK(differs([](ElasticJob& job) { job.model.keeps_scores = true; }));
  CHECK(description(job(10, "n1", {0})).find("\"program\":\"\"") != std::string::npos);  // tells no setting
  ElasticJob unknown = one;
  unknown.model = {};
  CHECK(description(unknown).empty());
}

TEST_CASE("what two generations measured becomes a mean with a spread") {
  const Site site = site_of();
  Knowledge row;
  row.gpus = gpu_types(site, {{"n1", 0}, {"n2", 3}});
  CHECK(row.gpus == "h100");
  auto first = known_coefficients(), second = first;
  second.gpu[0].comp *= 1.2;
  learn(row, first, 0.01, site);
  CHECK(row.speed.count == 1);
  CHECK(row.doubt() == 0.01);
  CHECK(*stored_coefficients(row.coefficients, site.hardware) == first);
  learn(row, second, 0.02, site);
  CHECK(row.speed.count == 2);
  CHECK(row.doubt() == doctest::Approx(0.1 / 1.1));
  CHECK(recalled({row}, "h100", site)->gpu[0].comp == doctest::Approx(1.1 * first.gpu[0].comp));
  CHECK_FALSE(recalled({row}, "a100", site));
}

TEST_CASE("a type that has joined the cluster is scaled from one that was measured, and assumed") {
  const Json stored = coefficients_json(known_coefficients(), site_of().hardware);
  const Site mixed = site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}, {}}, {}).site;
  const auto found = stored_coefficients(stored, mixed.hardware);
  REQUIRE(found);
  const auto h100 = static_cast<std::size_t>(mixed.hardware.type_index("h100"));
  const auto a100 = static_cast<std::size_t>(mixed.hardware.type_index("a100"));
  CHECK_FALSE(found->gpu[h100].assumed_comp);
  CHECK(found->gpu[a100].assumed_comp);
  CHECK(
      found->gpu[a100].comp / found->gpu[h100].comp ==
      doctest::Approx(times_as_fast(mixed.hardware.types[h100], mixed.hardware.types[a100], found->traffic_per_flop)));
  CHECK_FALSE(stored_coefficients(stored, site_of("v100").hardware));
  CHECK_FALSE(stored_coefficients(Json{{"gpu", {{"h100", 5}}}}, site_of().hardware));
  CHECK_FALSE(stored_coefficients(nullptr, site_of().hardware));
}

TEST_CASE("how fast links are is learnt from other kinds of jobs, where they measured it") {
  const Site site = site_of();
  const auto row_with = [&](std::optional<double> rail) {
    ElasticJob of = training(10);
    of.model.hidden *= 2;  // another kind of job
    of.model.setting->program = "other 1.0";
    Knowledge row;
    row.job = description(of);
    row.gpus = "h100";
    auto measured = known_coefficients();
    measured.assumed_rail = !rail;
    measured.rail_ms_per_byte = rail.value_or(0);
    learn(row, measured, 0.01, site);
    return row;
  };
  const std::string job = description(training(11));
  CHECK(usual_rail({}, job) == 0);
  CHECK(usual_rail({row_with({})}, job) == 0);
  // The lower of two figures counts, so that one job's trouble is not the next one's.
  CHECK(usual_rail({row_with(3e-5), row_with(1e-5), row_with(2e-5), row_with({})}, job) == 2e-5);
  CHECK(usual_rail({row_with(3e-5), row_with(1e-5)}, job) == 1e-5);
  CHECK(usual_rail({row_with(1e-5)}, row_with(1e-5).job) == 0);  // it recalls this row
  Knowledge broken = row_with(1e-5);
  broken.coefficients["rail_ms_per_byte"] = "fast";
  CHECK(usual_rail({broken}, job) == 0);
}

TEST_CASE("the overlap counts as assumed once other bandwidths are configured, and assumed speeds follow the types") {
  const Site mixed = site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}, {}}, {}).site;
  const auto h100 = static_cast<std::size_t>(mixed.hardware.type_index("h100"));
  const auto a100 = static_cast<std::size_t>(mixed.hardware.type_index("a100"));
  JobCoefficients job = known_coefficients();
  job.gpu.resize(2, job.gpu.front());
  job.gpu[h100].assumed_comp = job.gpu[h100].assumed_optim = job.gpu[h100].assumed_overlap = false;
  job.gpu[a100].assumed_comp = true;
  Knowledge row;
  row.gpus = "h100";
  learn(row, job, 0.01, mixed);
  CHECK_FALSE(stored_coefficients(row.coefficients, mixed.hardware)->gpu[h100].assumed_overlap);
  HardwareOverrides figures;
  figures.nic_gb_s = 5;
  figures.gpus["a100"].tflops = 100;
  const Site now =
      site_from_view(ClusterView{{node("n1", 4), node("n2", 4, "leaf1", "a100")}, {}, {}}, {}, figures).site;
  const auto found = stored_coefficients(row.coefficients, now.hardware);
  REQUIRE(found);
  CHECK(found->gpu[h100].assumed_overlap);
  CHECK_FALSE(found->gpu[h100].assumed_comp);
  CHECK(found->gpu[h100].comp == job.gpu[h100].comp);
  CHECK(found->gpu[a100].comp ==
        doctest::Approx(job.gpu[h100].comp *
                        times_as_fast(now.hardware.types[h100], now.hardware.types[a100], job.traffic_per_flop)));
}
