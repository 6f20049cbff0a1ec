// How fast GPU types are by their data sheets, against what was measured on them.
#include "planner/core/model/roofline.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/sheet_coefficients.hpp"
#include "planner/core/model/unseen_types.hpp"
#include "planner/core/topology/gpu_specs.hpp"

namespace {

using namespace espalier;

GpuType type(double tflops, double gb_s) {
  GpuType result;
  result.tflops = tflops;
  result.memory_bandwidth = gb_s * 1e6;
  return result;
}

TEST_CASE("a layer takes the time of its products and that of its traffic") {
  // 100 TFLOPS reach 70e9 FLOP/ms, 1000 GB/s reach 0.8e9 bytes/ms.
  CHECK(flop_rate(type(100, 1000), 0.01) == doctest::Approx(1 / (1 / 70e9 + 0.01 / 0.8e9)));
  CHECK(flop_rate(type(100, 0), 0.01) == doctest::Approx(45e9));
  CHECK(flop_rate(type(100, 1000), 0) == doctest::Approx(45e9));
}

TEST_CASE("of two types the one with more bandwidth gains where the traffic is larger") {
  const GpuType slow = type(100, 1000), fast = type(200, 1500);
  CHECK(times_as_fast(fast, slow, 0) == doctest::Approx(2));
  CHECK(times_as_fast(fast, slow, 0.01) < 2);
  CHECK(times_as_fast(fast, slow, 0.1) < times_as_fast(fast, slow, 0.01));
  CHECK(times_as_fast(fast, slow, 1e6) == doctest::Approx(1.5));
  CHECK(times_as_fast(type(200, 0), slow, 0.1) == doctest::Approx(2));  // a bandwidth is unknown
}

TEST_CASE("all types are compared by TFLOPS alone where the bandwidth of one is unknown") {
  const ModelShape shape{"gpt2", 24, 1024, 16, 1024, 50257, 8, 1};
  Hardware hardware;
  hardware.types = {type(312, 1555), type(2500, 0), type(989.5, 3350)};
  CHECK_FALSE(bandwidths_known(hardware));
  const JobCoefficients sheet = sheet_coefficients(shape, {}, hardware);
  REQUIRE(sheet.traffic_per_flop > 0);
  const auto check = [](const JobCoefficients& found) {
    CHECK(found.gpu[0].comp / found.gpu[1].comp == doctest::Approx(2500.0 / 312));
    CHECK(found.gpu[0].comp / found.gpu[2].comp == doctest::Approx(989.5 / 312));
  };
  check(sheet);
  for (const GpuCoefficients& gpu : sheet.gpu) CHECK(gpu.optim == 0);
  JobCoefficients measured = sheet;
  measured.gpu[0].assumed_comp = measured.gpu[0].assumed_optim = false;
  measured.gpu[0].optim = 6;
  std::vector<std::string> remarks;
  scale_to_unseen_types(measured, hardware, remarks);
  check(measured);
  CHECK(measured.gpu[2].optim == doctest::Approx(6 * 312 / 989.5));

  hardware.types[1].memory_bandwidth = 8000e6;
  CHECK(bandwidths_known(hardware));
  const JobCoefficients known = sheet_coefficients(shape, {}, hardware);
  CHECK(known.gpu[0].comp / known.gpu[1].comp < 7);
  CHECK(known.gpu[1].optim > 0);
}

TEST_CASE("wide layers and short sequences have less traffic for each FLOP") {
  const auto traffic = [](int hidden, int sequence) {
    return model_sizes({"gpt2", 24, hidden, 16, sequence, 50257, 8, 1}, {}, 1).traffic_per_flop;
  };
  CHECK(traffic(4096, 1024) < traffic(1024, 1024));
  CHECK(traffic(1024, 512) < traffic(1024, 2048));
  // 2 * (17 + 2.5 * 16) activations of 4 bytes; 24 h^2 + 4 h s FLOPs a token.
  CHECK(traffic(1024, 1024) == doctest::Approx(2 * 57 * 4 * 1024 / (28.0 * 1024 * 1024)));
  // Scores are traffic also where memory does not keep them: the constants were fitted so.
  ModelShape fused{"gpt2", 24, 1024, 16, 1024, 50257, 8, 1};
  fused.keeps_scores = false;
  CHECK(model_sizes(fused, {}, 1).traffic_per_flop == traffic(1024, 1024));
  const ModelShape llama{"llama", 32, 4096, 32, 2048, 32000, 8, 1};
  CHECK(model_sizes(llama, {}, 1).traffic_per_flop ==
        doctest::Approx(2 * (7 + 4 + 4 * 11008.0 / 4096 + 16) * 4 * 2048 * 4096 / layer_flops(llama)));
  CHECK(model_sizes({"data", 1, 1, 1, 1, 1, 8, 1}, {}, 1).traffic_per_flop == 0);  // unknown models
}

// Arena's measurements of GPTs: the best plans on one or two GPUs of one node.
TEST_CASE("how much longer measured GPTs take on other types is foretold better than by TFLOPS") {
  std::ifstream file("../shared/data/arena/profile.csv");
  if (!file) {
    MESSAGE("skipped: no ../shared/data");
    return;
  }
  const std::map<std::string, std::array<int, 3>> shapes{
      {"760M", {1536, 24, 24}}, {"1.3B", {2048, 24, 32}}, {"2.6B", {2560, 32, 32}}};  // hidden, layers, heads
  struct Row {
    std::string params;
    std::map<std::string, double> seconds;  // by type
  };
  std::map<std::string, Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string word; std::getline(in, word, ',');) words.push_back(word);
    if (words.size() < 15 || words[0] != "alpa_optimal" || words[1] != "bert" || !shapes.contains(words[2])) continue;
    if (words[5] != "1" || std::stoi(words[6]) > 2) continue;
    Row& row = rows[words[2] + "/" + words[3] + "/" + words[6]];
    row.params = words[2];
    row.seconds[words[4]] = std::stod(words[14]);
  }
  double by_tflops = 0, by_roofline = 0;
  int count = 0;
  for (const auto& [key, row] : rows) {
    if (!row.seconds.contains("a100")) continue;
    const auto [hidden, layers, heads] = shapes.at(row.params);
    const double traffic =
        model_sizes({"gpt2", layers, hidden, heads, 1024, 51200, 128, 1}, {{2, 4, 12, 2}}, 1).traffic_per_flop;
    const GpuType reference = known_gpu("a100")->type;
    for (const auto& [name, seconds] : row.seconds) {
      if (name == "a100") continue;
      const double longer = seconds / row.seconds.at("a100");
      const GpuType other = known_gpu(name)->type;
      by_tflops += std::abs(1 / times_as_fast(other, reference, 0) / longer - 1);
      by_roofline += std::abs(1 / times_as_fast(other, reference, traffic) / longer - 1);
      ++count;
    }
  }
  REQUIRE(count > 10);
  MESSAGE("of " << count << " measured ratios, mean error: " << 100 * by_tflops / count << "% by TFLOPS, "
                << 100 * by_roofline / count << "% by TFLOPS and bandwidth");
  CHECK(by_roofline / count < 0.09);
  CHECK(by_roofline < 0.75 * by_tflops);
}

}  // namespace
