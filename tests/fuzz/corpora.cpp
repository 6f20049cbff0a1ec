// Runs every target on its seeds: inputs of every kind, and those that broke a parser once.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/targets.hpp"

namespace fs = std::filesystem;

TEST_CASE("the seeds of the fuzz targets break no parser") {
  for (const auto& target : espalier::fuzz::kTargets) {
    CAPTURE(target.name);
    const fs::path folder = fs::path("tests/fuzz/seeds") / target.name;
    REQUIRE(fs::is_directory(folder));
    std::vector<fs::path> seeds;
    for (const auto& entry : fs::directory_iterator(folder)) seeds.push_back(entry.path());
    std::sort(seeds.begin(), seeds.end());
    REQUIRE(!seeds.empty());
    for (const fs::path& seed : seeds) {
      CAPTURE(seed);
      std::ifstream in(seed, std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(in), {}};
      target.run(input);
      target.run({});
    }
  }
}

TEST_CASE("every folder of seeds belongs to a fuzz target") {
  for (const auto& entry : fs::directory_iterator("tests/fuzz/seeds")) {
    const std::string name = entry.path().filename();
    CAPTURE(name);
    CHECK(std::any_of(espalier::fuzz::kTargets.begin(), espalier::fuzz::kTargets.end(),
                      [&](const auto& target) { return name == target.name; }));
  }
}
