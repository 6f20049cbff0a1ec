#include "tests/bench/planner/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "tests/bench/planner/commands.hpp"

namespace espalier::bench {
namespace {

// Appends one calibrator's errors on the samples that are not `excluded`.
void predict_from(const Sample& calibrator, const ClusterBandwidths& bandwidths, const std::vector<Sample>& samples,
                  const std::vector<std::size_t>& excluded, std::vector<PredictionError>& errors) {
  const Hardware hardware = hardware_of(bandwidths);
  const JobCoefficients job = calibrate_on(hardware, bandwidths.flops, calibrator);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Measurement& target = samples[i].measured;
    if (!target.same_model(calibrator.measured) || target.same_plan(calibrator.measured)) continue;
    if (std::find(excluded.begin(), excluded.end(), i) != excluded.end()) continue;
    errors.push_back({i, predict(hardware, job, samples[i]) / target.times.iteration - 1});
  }
}

// A random choice that is the same on every platform, unlike std::shuffle.
std::vector<std::size_t> choose(std::size_t from, std::size_t count, std::mt19937_64& random) {
  std::vector<std::size_t> order(from);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[i + random() % (from - i)]);
  order.resize(count);
  return order;
}

struct Options {
  std::string measurements, calibrate, cluster, write_cluster;
  int fit_rows = 12, draws = 20;
  double gpu_memory = 80;
  std::uint64_t seed = 1;
  bool json = false, per_row = false;
};

void print_rows(const std::vector<PredictionError>& errors, const std::vector<Sample>& samples) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    double sum = 0, absolute = 0;
    int count = 0;
    for (const PredictionError& error : errors)
      if (error.target == i) sum += error.relative, absolute += std::abs(error.relative), ++count;
    if (count > 0)
      std::printf("%-34s %8.1f ms  mean %+6.2f%%  mean absolute %5.2f%%  (%d)\n", samples[i].measured.name().c_str(),
                  samples[i].measured.times.iteration, 100 * sum / count, 100 * absolute / count, count);
  }
}

void run(const Options& options) {
  const auto rows = read_measurements(options.measurements);
  auto known = rows;
  std::vector<Measurement> calibrating;
  if (!options.calibrate.empty()) calibrating = read_measurements(options.calibrate);
  known.insert(known.end(), calibrating.begin(), calibrating.end());
  const auto may_recompute = models_that_may_recompute(known, options.gpu_memory * 1e9);
  const auto samples = samples_of(rows, may_recompute), calibrators = samples_of(calibrating, may_recompute);
  const auto errors = options.cluster.empty()
                          ? errors_of_draws(samples, calibrators, options.fit_rows, options.draws, options.seed)
                          : errors_on_cluster(read_cluster(options.cluster), samples, calibrators);
  if (!options.write_cluster.empty()) {
    const auto all = pointers(samples);
    write_cluster(options.write_cluster, fit_cluster(calibrators.empty() ? all : pointers(calibrators), all));
  }
  const ErrorSummary summary = summarize(errors);
  if (options.per_row && !options.json) print_rows(errors, samples);
  if (options.json)
    std::printf("%s\n", nlohmann::json{{"mean_pct", summary.mean_pct},
                                       {"median_pct", summary.median_pct},
                                       {"p90_pct", summary.p90_pct},
                                       {"rows", samples.size()},
                                       {"predictions", errors.size()}}
                            .dump()
                            .c_str());
  else
    std::printf("%zu rows, %zu predictions: mean |error| %.2f%%, median %.2f%%, p90 %.2f%%\n", samples.size(),
                errors.size(), summary.mean_pct, summary.median_pct, summary.p90_pct);
}

}  // namespace

std::vector<PredictionError> errors_of_draws(const std::vector<Sample>& samples, const std::vector<Sample>& calibrators,
                                             int fit_rows, int draws, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(fit_rows);
  if (samples.size() <= count)
    throw Error("--fit-rows " + std::to_string(fit_rows) + ": there are " + std::to_string(samples.size()) +
                " rows, and some must be left to test on; use fewer");
  std::mt19937_64 random(seed);
  std::vector<PredictionError> errors;
  for (int draw = 0; draw < draws; ++draw) {
    const auto chosen = choose(samples.size(), count, random);
    std::vector<const Sample*> fit;
    for (const std::size_t i : chosen) fit.push_back(&samples[i]);
    const auto from = calibrators.empty() ? fit : pointers(calibrators);
    const ClusterBandwidths bandwidths = fit_cluster(from, fit);
    for (const Sample* one : from) predict_from(*one, bandwidths, samples, chosen, errors);
  }
  return errors;
}

std::vector<PredictionError> errors_on_cluster(const ClusterBandwidths& bandwidths, const std::vector<Sample>& samples,
                                               const std::vector<Sample>& calibrators) {
  std::vector<PredictionError> errors;
  for (const Sample& one : calibrators.empty() ? samples : calibrators)
    predict_from(one, bandwidths, samples, {}, errors);
  return errors;
}

ErrorSummary summarize(const std::vector<PredictionError>& errors) {
  if (errors.empty()) throw Error("no row is left to test on: give at least two different plans of one model");
  std::vector<double> absolute;
  for (const PredictionError& error : errors) absolute.push_back(100 * std::abs(error.relative));
  std::sort(absolute.begin(), absolute.end());
  const auto quantile = [&](double share) {
    return absolute[static_cast<std::size_t>(std::ceil(share * static_cast<double>(absolute.size()))) - 1];
  };
  const double sum = std::accumulate(absolute.begin(), absolute.end(), 0.0);
  return {sum / static_cast<double>(absolute.size()), quantile(0.5), quantile(0.9)};
}

void add_accuracy(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "accuracy",
      "Predicts measured iteration times from one measured plan. The cluster's bandwidths are fitted on --fit-rows "
      "random rows, --draws times, or read from --cluster. Then each of these rows (with --cluster: each row; with "
      "--calibrate: each row of that file) in turn gives the job's coefficients, and all plans of its model that were "
      "not used are predicted.");
  command->add_option("--measurements", options->measurements, "CSV of measured plans")->required();
  command->add_option("--cluster", options->cluster, "bandwidths kept by --write-cluster");
  command->add_option("--fit-rows", options->fit_rows, "rows that bandwidths are fitted on")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  command->add_option("--draws", options->draws, "how many times")->check(CLI::Range(1, 100000))->capture_default_str();
  command->add_option("--seed", options->seed, "of the random rows")->capture_default_str();
  command->add_option("--write-cluster", options->write_cluster, "keep the bandwidths fitted on all rows in this file");
  command->add_option("--calibrate", options->calibrate,
                      "CSV of plans of the same models that give the coefficients, where --measurements has iteration "
                      "times only");
  command
      ->add_option("--gpu-memory", options->gpu_memory,
                   "GB of a GPU; models whose plans need more are checked for recomputation")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--per-row", options->per_row, "print every row's errors too, without --json");
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
