// The numbers of micro-batches that an Evaluator accepts.
#include <doctest/doctest.h>

#include <limits>

#include "planner/core/solver/evaluator.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {
std::vector<int> counts_of(int batch, int fixed = 0) {
  std::mt19937 random(1);
  TinyCase tiny = tiny_case(random);
  tiny.job.global_batch = batch;
  tiny.bounds.fixed_micro_batches = fixed;
  return Evaluator(tiny.problem()).micro_batch_counts();
}
}  // namespace

TEST_SUITE("solver") {
  TEST_CASE("the numbers of micro-batches are the batch's divisors, ascending") {
    for (const int batch : {1, 2, 12, 16, 97, 360}) {
      std::vector<int> expected;
      for (int n = 1; n <= batch; ++n)
        if (batch % n == 0) expected.push_back(n);
      CHECK(counts_of(batch) == expected);
    }
  }

  TEST_CASE("of a batch as large as a number can be they are found as well") {
    CHECK(counts_of(std::numeric_limits<int>::max()) == std::vector{1, std::numeric_limits<int>::max()});
    CHECK(counts_of(1 << 30).size() == 31);
  }

  TEST_CASE("a number that the bounds fix is the only one, if it divides the batch") {
    CHECK(counts_of(12, 4) == std::vector{4});
    CHECK(counts_of(12, 5).empty());
  }
}
