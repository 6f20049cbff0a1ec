#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "torchrt/checkpoint/common_runs.hpp"

using namespace espalier::torchrt;

namespace {

constexpr std::int64_t kRows = 12, kColumns = 7;

// A part of a 12 x 7 tensor. Each element holds its place in the whole.
struct Part {
  std::vector<Range> rows;
  Range columns, elements;
  ShardPart view() const { return {&rows, columns, elements}; }
  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> all;
    for (const Range& range : rows)
      for (std::int64_t row = range.first; row < range.end(); ++row)
        for (std::int64_t column = columns.first; column < columns.end(); ++column)
          all.push_back(row * kColumns + column);
    return {all.begin() + elements.first, all.begin() + elements.end()};
  }
};

Part random_part(std::mt19937& random) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(limit));
  };
  Part part;
  std::int64_t rows = 0;
  for (std::int64_t next = below(4); next < kRows && part.rows.size() < 3; next += below(3)) {
    part.rows.push_back({next, 1 + below(kRows - next)});
    rows += part.rows.back().count;
    next = part.rows.back().end();
  }
  part.columns.first = below(kColumns);
  part.columns.count = 1 + below(kColumns - part.columns.first);
  const std::int64_t all = rows * part.columns.count;
  part.elements.first = below(all);
  part.elements.count = 1 + below(all - part.elements.first);
  return part;
}

}  // namespace

TEST_CASE("two parts of a tensor share exactly the elements that both hold") {
  std::mt19937 random(7);
  int with_something = 0;
  for (int round = 0; round < 5000; ++round) {
    const Part from = random_part(random), to = random_part(random);
    std::vector<float> source, target(static_cast<std::size_t>(to.elements.count), -1.0F);
    for (const std::int64_t place : from.places()) source.push_back(static_cast<float>(place));
    const std::int64_t copied = each_common_run(from.view(), to.view(), [&](const CommonRun& run) {
      REQUIRE(run.count > 0);
      REQUIRE(run.from + run.count <= from.elements.count);
      REQUIRE(run.to + run.count <= to.elements.count);
      std::copy_n(source.begin() + run.from, run.count, target.begin() + run.to);
    });
    const std::vector<std::int64_t> held = from.places(), wanted = to.places();
    std::int64_t expected = 0;
    bool right = true;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const bool common = std::find(held.begin(), held.end(), wanted[i]) != held.end();
      expected += common ? 1 : 0;
      right = right && target[i] == (common ? static_cast<float>(wanted[i]) : -1.0F);
    }
    CHECK(right);
    CHECK(copied == expected);
    if (expected > 0) CHECK(overlap(from.view(), to.view()));
    with_something += expected > 0 ? 1 : 0;
  }
  CHECK(with_something > 1000);
  CHECK(with_something < 5000);
}
