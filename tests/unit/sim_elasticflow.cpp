// ElasticFlow's shares against cases solved by hand.
#include <doctest/doctest.h>

#include <random>

#include "planner/sim/policies/elasticflow_shares.hpp"

using namespace espalier::sim;

namespace {
const std::vector<ShareLevel> kWell{{1, 1}, {2, 1.9}, {4, 3.2}};
const std::vector<ShareLevel> kBadly{{1, 1}, {2, 1.5}, {4, 2}};
}  // namespace

TEST_SUITE("elasticflow") {
  TEST_CASE("GPUs go where one more brings most") {
    // Least shares 1 + 1. Per GPU: well 0.9 then 0.65, badly 0.5 then 0.25.
    const std::vector<ShareJob> jobs{{kWell, true}, {kBadly, true}};
    CHECK(elasticflow_shares(jobs, 3) == std::vector{1, 0});
    // Two are left after the first step, then one: the next one of `well` does not fit.
    CHECK(elasticflow_shares(jobs, 4) == std::vector{1, 1});
    CHECK(elasticflow_shares(jobs, 5) == std::vector{2, 0});
    CHECK(elasticflow_shares(jobs, 8) == std::vector{2, 2});
    CHECK(elasticflow_shares(jobs, 100) == std::vector{2, 2});
  }

  TEST_CASE("who was admitted keeps its share, then the queue's order counts, and what fits passes what does not") {
    const std::vector<ShareJob> jobs{{{{2, 2}}, false}, {{{1, 1}}, true}, {{{1, 1}}, false}, {{{1, 1}}, false}};
    CHECK(elasticflow_shares(jobs, 2) == std::vector{-1, 0, 0, -1});
    CHECK(elasticflow_shares(jobs, 3) == std::vector{0, 0, -1, -1});
  }

  TEST_CASE("no GPU goes where it brings nothing") {
    const std::vector<ShareJob> jobs{{{{1, 1}, {2, 1}, {4, 0.8}}, true}};
    CHECK(elasticflow_shares(jobs, 8) == std::vector{0});
  }

  TEST_CASE("never more than there is") {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
      std::vector<ShareJob> jobs(1 + random() % 6);
      for (ShareJob& job : jobs) {
        double throughput = 0;
        for (int gpus = 1; gpus <= 16; gpus *= 2)
          if (random() % 4 > 0) job.levels.push_back({gpus, throughput += static_cast<double>(random() % 100) / 10});
        job.admitted = random() % 2 == 0;
      }
      const int all = static_cast<int>(random() % 40);
      const auto level = elasticflow_shares(jobs, all);
      int used = 0;
      for (std::size_t j = 0; j < jobs.size(); ++j)
        if (level[j] >= 0) used += jobs[j].levels.at(static_cast<std::size_t>(level[j])).gpus;
      CHECK(used <= all);
    }
  }
}
