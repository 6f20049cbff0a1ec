#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "tests/unit/torchrt_safetensors_cases.hpp"
#include "tests/unit/torchrt_tiny_model.hpp"
#include "torchrt/metrics.hpp"
#include "torchrt/model/units.hpp"
#include "torchrt/model_flops.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

Config metrics_config(const std::string& path) {
  Config config;
  config.model = tiny_model("gpt2", true);
  config.training.steps = 10;
  config.training.global_batch = 8;
  config.metrics.path = path;
  config.metrics.progress_every = 0;
  return config;
}

std::vector<Json> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<int> steps_of(const std::string& path) {
  std::vector<int> steps;
  for (const Json& line : lines_of(path)) steps.push_back(line.at("step").get<int>());
  return steps;
}

}  // namespace

TEST_CASE("a step is one line of JSON, a validation another") {
  const TestFolder folder;
  const Config config = metrics_config(folder / "m");
  Metrics metrics(config, {3, 2, "the plan", 4, 1e9}, 0);
  metrics.record({1, 5.5, 0.25, 1e-3, 0.5});
  metrics.record_validation(1, 5.25, 0.1);
  const std::vector<Json> lines = lines_of(config.metrics.path);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("loss") == 5.5);
  CHECK(lines[0].at("gradient_norm") == 0.25);
  CHECK(lines[0].at("learning_rate") == 1e-3);
  CHECK(lines[0].at("tokens_per_second") == 160);
  CHECK(lines[0].at("mfu").get<double>() == doctest::Approx(160 * model_flops_per_token(config.model) / 2e9));
  CHECK(lines[0].at("generation") == 3);
  CHECK(lines[0].at("gpus") == 2);
  CHECK(lines[0].at("plan") == "the plan");
  CHECK(lines[0].at("micro_batches") == 4);
  CHECK(lines[1].at("validation_loss") == 5.25);
  CHECK_FALSE(lines[1].contains("loss"));
}

TEST_CASE("where the peak is unknown no MFU is made up") {
  const TestFolder folder;
  const Config config = metrics_config(folder / "m");
  Metrics(config, {0, 1, "p", 0}, 0).record({1, 5, 1, 1, 1});
  CHECK(lines_of(config.metrics.path)[0].at("mfu").is_null());
}

TEST_CASE("a job empties the file, a later generation continues it, a resumed job drops what it will do again") {
  const TestFolder folder;
  const Config config = metrics_config(folder / "m");
  const auto steps = [&](std::optional<std::int64_t> done, std::vector<std::int64_t> made) {
    Metrics metrics(config, {0, 1, "p", 0}, done);
    for (const std::int64_t step : made) metrics.record({step, 5, 1, 1, 1});
  };
  steps(0, {1, 2, 3});
  CHECK(steps_of(config.metrics.path) == std::vector{1, 2, 3});
  steps(std::nullopt, {4, 5});
  CHECK(steps_of(config.metrics.path) == std::vector{1, 2, 3, 4, 5});
  std::ofstream(config.metrics.path, std::ios::app) << "{\"step\": 6, \"lo";  // torn when the job died
  steps(3, {4});
  CHECK(steps_of(config.metrics.path) == std::vector{1, 2, 3, 4});
  steps(0, {1});
  CHECK(steps_of(config.metrics.path) == std::vector{1});
}

TEST_CASE("a step that its generation did not live to record is recorded by the next, once, without times") {
  const TestFolder folder;
  const Config config = metrics_config(folder / "m");
  Metrics(config, {0, 1, "p", 4, 1e9}, 0).record({1, 5, 1, 1, 1});
  Metrics next(config, {1, 1, "p", 4, 1e9}, 2);
  next.record_missing({1, 5, 1, 1, 0});
  next.record_missing({2, 4, 0.5, 1e-3, std::nan("")});
  next.record_missing({2, 4, 0.5, 1e-3, std::nan("")});
  CHECK(steps_of(config.metrics.path) == std::vector{1, 2});
  const Json line = lines_of(config.metrics.path)[1];
  CHECK(line.at("loss") == 4);
  CHECK(line.at("generation") == 1);
  for (const char* unknown : {"seconds", "tokens_per_second", "mfu"}) CHECK(line.at(unknown).is_null());
}

TEST_CASE("whether the file has the validation after a step is known by its lines, and without a file not at all") {
  const TestFolder folder;
  const Config config = metrics_config(folder / "m");
  Metrics(config, {0, 1, "p", 4, 1e9}, 0).record({1, 5, 1, 1, 1});
  Metrics(config, {0, 1, "p", 4, 1e9}, std::nullopt).record_validation(2, 5.25, 0.1);
  std::ofstream(config.metrics.path, std::ios::app) << "{\"validation_loss\": 5}\n{\"step\": 3, \"validation_lo";
  const Metrics next(config, {1, 1, "p", 4, 1e9}, std::nullopt);
  CHECK_FALSE(next.has_validation(1));
  CHECK(next.has_validation(2));
  CHECK_FALSE(next.has_validation(3));
  CHECK_FALSE(Metrics(metrics_config(""), {1, 1, "p", 4, 1e9}, 2).has_validation(2));
  CHECK(next.has_file());
  CHECK_FALSE(Metrics(metrics_config(""), {1, 1, "p", 4, 1e9}, 2).has_file());
}

TEST_CASE("whether the file has a validation is known without parsing the lines of all steps") {
  using Clock = std::chrono::steady_clock;
  constexpr int kSteps = 20000;
  const TestFolder folder;
  const Config config = metrics_config(folder / "m");
  {
    Metrics metrics(config, {0, 1, "p", 4, 1e9}, 0);
    metrics.record({1, 5, 1, 1, 1});
  }
  std::ifstream in(config.metrics.path);
  std::string line, all;
  std::getline(in, line);
  for (int i = 0; i < kSteps; ++i) all += line + "\n";
  std::ofstream(config.metrics.path) << all;
  Metrics metrics(config, {1, 1, "p", 4, 1e9}, std::nullopt);
  metrics.record_validation(7, 5.25, 0.1);
  const Clock::time_point begin = Clock::now();
  CHECK(metrics.has_validation(7));
  const Clock::time_point looked = Clock::now();
  CHECK(lines_of(config.metrics.path).size() == kSteps + 1);
  CHECK(looked - begin < (Clock::now() - looked) / 2);
}

TEST_CASE("a metrics file on a full disk does not end a training") {
  std::string said;
  const Config config = metrics_config("/dev/full");
  Metrics metrics(config, {0, 2, "the plan", 4, 1e9}, 0, [&](const std::string& what) { said += what + "\n"; });
  CHECK_NOTHROW(metrics.record({1, 5.5, 0.25, 1e-3, 0.5}));
  CHECK_NOTHROW(metrics.record({2, 5.5, 0.25, 1e-3, 0.5}));
  CHECK(
      said ==
      "metrics.path: /dev/full cannot be written: No space left on device; training goes on, and lines are lost until "
      "it can be written: make room there, or mend its file system\n");
}

TEST_CASE("a generation after the first is not given up for a metrics file that is not there") {
  const Config config = metrics_config("/nonexistent/m");
  std::string said;
  Metrics metrics(config, {1, 2, "the plan", 4, 1e9}, 3, [&](const std::string& what) { said += what; });
  metrics.record({4, 5.5, 0.25, 1e-3, 0.5});
  CHECK(said.find("metrics.path: /nonexistent/m cannot be written") == 0);
}

TEST_CASE("a metrics file that cannot be opened is refused by name") {
  CHECK_THROWS_WITH_AS(Metrics(metrics_config("/nonexistent/m"), {}, 0),
                       "metrics.path: /nonexistent/m cannot be written: No such file or directory; choose another path",
                       Error);
}

TEST_CASE("a token of GPT-2 small costs what the formula says") {
  ModelConfig model;
  model.layers = 12;
  model.hidden = 768;
  model.heads = 12;
  model.sequence = 1024;
  model.vocabulary = 50257;
  const double blocks = 12.0 * 12 * 768 * 768, head = 50257.0 * 768;
  CHECK(model_flops_per_token(completed(model)) == 6 * (blocks + head) + 12.0 * 12 * 768 * 1024);
  model.tied_embeddings = false;
  CHECK(model_flops_per_token(completed(model)) == 6 * (blocks + head) + 12.0 * 12 * 768 * 1024);
}

TEST_CASE("what ranks do on their shards of all units is what a token costs") {
  ModelConfig model;
  model.family = "llama";
  model.layers = 3;
  model.hidden = 64;
  model.heads = 4;
  model.sequence = 32;
  model.vocabulary = 512;
  model = completed(model);
  for (const int tp : {1, 2, 4}) {
    double sum = 0, updates = 0;
    for (int unit = 0; unit < unit_count(model); ++unit) {
      const UnitFlops flops = unit_flops(model, unit, tp);
      sum += flops.forward + flops.backward + flops.weight_gradient;
      updates += flops.update;
    }
    CHECK(sum == doctest::Approx(model_flops_per_token(model) / tp));
    CHECK(updates > 0);
  }
  // An embedding is looked up, not multiplied. A block's attention takes twice the forward FLOPs in
  // backward.
  CHECK(unit_flops(model, 0, 1).forward == 0);
  CHECK(unit_flops(model, 0, 1).update == 16.0 * 512 * 64);
  const UnitFlops block = unit_flops(model, 1, 1);
  CHECK(block.backward - block.weight_gradient == 2 * (block.forward - block.weight_gradient));
}

TEST_CASE("cards are known by whole words of their name") {
  CHECK(peak_flops("NVIDIA H200", DataType::bfloat16) == doctest::Approx(989.4e12));
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", DataType::bfloat16) == doctest::Approx(312e12));
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", DataType::float32) == doctest::Approx(19.5e12));
  CHECK(peak_flops("NVIDIA H100 80GB HBM3", DataType::bfloat16) == doctest::Approx(989.4e12));
  CHECK(peak_flops("NVIDIA RTX A4000", DataType::bfloat16) == 0);
  CHECK(peak_flops("", DataType::bfloat16) == 0);
}
