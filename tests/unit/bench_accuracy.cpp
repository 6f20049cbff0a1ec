// How well one measured plan predicts others, on made-up clusters with known bandwidths and on
// recorded ones.
#include <doctest/doctest.h>

#include <filesystem>

#include "planner/core/error.hpp"
#include "planner/core/model/published_models.hpp"
#include "tests/bench/planner/accuracy.hpp"
#include "tests/bench/planner/measured_plan.hpp"

using namespace espalier;
using namespace espalier::bench;

namespace {

const std::filesystem::path kRecorded = "../shared/data/measured";

// Samples of one model on a cluster with these bandwidths. The performance model itself times them.
std::vector<Sample> made_up(const ClusterBandwidths& truth) {
  std::vector<Sample> samples;
  const Hardware hardware = hardware_of(truth);
  for (const char* placement : {"88", "8888", "4444", "88888888", "5533"})
    for (const int pp : {1, 2, 4})
      for (const int tp : {1, 2, 4, 8}) {
        Measurement m;
        m.model = "LLaMA-2-7B";
        m.shape = published_model(m.model);
        m.shape.global_batch = 16;
        m.shape.micro_batches = 1;
        m.placement = placement;
        int gpus = 0;
        for (const char digit : m.placement) gpus += digit - '0';
        if (gpus % (pp * tp) != 0 || gpus / pp / tp > 16) continue;
        m.pp = pp, m.tp = tp, m.dp = gpus / pp / tp;
        Sample sample{m, place(m), model_sizes(m.shape, {}, 1)};
        JobCoefficients job = sample.sizes;
        job.gpu[0] = {10, 2, 6, 1, false, false, false, false};
        auto times = stage_times(hardware, job, sample.plan);
        sample.measured.times.iteration = exact_iteration(times, 1);
        for (StageTime& time : times) time.extra = 0;
        sample.measured.times.forward_backward = exact_iteration(times, 1);
        const StageLoad load = stage_load(job, m.shape.layers / pp, true, pp == 1);
        sample.measured.times.optimizer = 6 * load.gradient_bytes / job.param_bytes / tp;
        samples.push_back(std::move(sample));
      }
  return samples;
}

}  // namespace

TEST_CASE("on a cluster that follows the model, known bandwidths predict every plan from any other") {
  const ClusterBandwidths truth{1.5e8, 2e6, 3e8, 1.2e8, 9e6};
  const auto samples = made_up(truth);
  REQUIRE(samples.size() > 30);
  const auto errors = errors_on_cluster(truth, samples, {});
  CHECK(errors.size() == samples.size() * (samples.size() - 1));
  CHECK(summarize(errors).mean_pct < 0.5);
}

TEST_CASE("fitted bandwidths predict plans that were not fitted, and the same seed gives the same errors") {
  const auto samples = made_up({1.5e8, 2e6, 3e8, 1.2e8, 9e6});
  const auto errors = errors_of_draws(samples, {}, 12, 2, 5);
  CHECK(errors.size() == 2 * 12 * (samples.size() - 12));
  CHECK(summarize(errors).mean_pct < 1);
  const auto again = errors_of_draws(samples, {}, 12, 2, 5);
  REQUIRE(again.size() == errors.size());
  for (std::size_t i = 0; i < errors.size(); ++i) CHECK(again[i].relative == errors[i].relative);
  const auto other = errors_of_draws(samples, {}, 12, 1, 6);
  CHECK(other[0].relative != errors[0].relative);
}

TEST_CASE("plans of another file can give the coefficients") {
  const ClusterBandwidths truth{1.5e8, 2e6, 3e8, 1.2e8, 9e6};
  auto samples = made_up(truth);
  const std::vector<Sample> calibrators(samples.begin(), samples.begin() + 2);
  // Without times of its parts a sample would calibrate worse.
  for (Sample& sample : samples) sample.measured.times = {sample.measured.times.iteration, 0, 0};
  const auto known = errors_on_cluster(truth, samples, calibrators);
  CHECK(known.size() == 2 * (samples.size() - 1));
  CHECK(summarize(known).mean_pct < 0.5);
  CHECK(summarize(errors_on_cluster(truth, samples, {})).mean_pct > 1);
  CHECK(summarize(errors_of_draws(samples, calibrators, 12, 1, 5)).mean_pct < 1);
}

TEST_CASE("a model recomputes its activations where it must have, unless it is too fast for that") {
  Measurement m;
  m.model = "GPT-2-XL(1.5B)";
  m.shape = published_model(m.model);
  m.shape.global_batch = 16;
  m.shape.micro_batches = 1;
  m.placement = "4";
  m.pp = 4;
  // 12 layers of 16 samples: 16 * 12 * 57 * 6.55 MB = 71.7 GB of activations alone.
  CHECK(models_that_may_recompute({m}, 80e9) == std::set<std::string>{m.model});
  CHECK(models_that_may_recompute({m}, 160e9).empty());
  const auto samples = [&] {
    auto result = samples_of({m}, {m.model});
    // Forward and backward take 3000 ms for 48 layers and the head. That is three or four forward
    // passes.
    result[0].measured.times = {3000, 3000, 0};
    return result;
  }();
  const Hardware hardware = hardware_of({});
  const double plain = [&] {
    Sample sample = samples[0];
    sample.may_recompute = false;
    return layer_flops(m.shape) / calibrate_on(hardware, 0, sample).gpu[0].comp;
  }();
  CHECK(calibrate_on(hardware, 0, samples[0]).recompute);
  CHECK_FALSE(calibrate_on(hardware, plain, samples[0]).recompute);
  CHECK_FALSE(calibrate_on(hardware, plain * 1.1, samples[0]).recompute);
  CHECK(calibrate_on(hardware, plain * 1.3, samples[0]).recompute);
}

TEST_CASE("errors are summarized by their absolute values") {
  std::vector<PredictionError> errors;
  for (int i = 1; i <= 10; ++i) errors.push_back({0, (i % 2 == 0 ? 1 : -1) * i / 100.0});
  const ErrorSummary summary = summarize(errors);
  CHECK(summary.mean_pct == doctest::Approx(5.5));
  CHECK(summary.median_pct == doctest::Approx(5));
  CHECK(summary.p90_pct == doctest::Approx(9));
  CHECK_THROWS_AS(summarize({}), Error);
}

TEST_CASE("too few rows to fit and test on are refused") {
  const auto samples = made_up({});
  CHECK_THROWS_AS(errors_of_draws(samples, {}, static_cast<int>(samples.size()), 1, 1), Error);
}

TEST_CASE("44 recorded plans of LLaMA-2-7B are predicted from one of them within 5%") {
  if (!std::filesystem::exists(kRecorded)) {
    MESSAGE("skipped: no " << kRecorded.string());
    return;
  }
  const auto samples = samples_of(read_measurements(kRecorded / "llama2-7b-a800.csv"));
  REQUIRE(samples.size() == 44);
  for (const std::uint64_t seed : {1, 2}) CHECK(summarize(errors_of_draws(samples, {}, 12, 3, seed)).mean_pct < 5);

  // Bandwidths belong to the cluster, so a fit on one model serves another. These plans do not fit
  // without recomputation.
  const auto rows = read_measurements(kRecorded / "gpt2-xl-a800.csv");
  const auto others = samples_of(rows, models_that_may_recompute(rows, 80e9));
  CHECK(others[0].may_recompute);
  CHECK(summarize(errors_on_cluster(fit_cluster(pointers(samples), pointers(samples)), others, {})).mean_pct < 5);
}
