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
    const std::vector<ShareJob> jobs{{kWell, -1}, {kBadly, -1}};
    CHECK(elasticflow_shares(jobs, 3) == std::vector{1, 0});
    // Two GPUs are left after the first step, then one. The next step of `well` needs more.
    CHECK(elasticflow_shares(jobs, 4) == std::vector{1, 1});
    CHECK(elasticflow_shares(jobs, 5) == std::vector{2, 0});
    CHECK(elasticflow_shares(jobs, 8) == std::vector{2, 2});
    CHECK(elasticflow_shares(jobs, 100) == std::vector{2, 2});
  }

  TEST_CASE("who waits takes the step that is worth least, and no more than it needs") {
    // Going down from the top, per GPU: well 0.65, badly 0.25 and then 0.5.
    const std::vector<ShareJob> jobs{{kWell, 2}, {kBadly, 2}, {{{2, 2}}, -1}};
    CHECK(elasticflow_shares(jobs, 8) == std::vector{2, 1, 0});
    // GPUs left over go back up. Three are freed, two are taken, one is left.
    const std::vector<ShareJob> three{{kWell, 2}, {kBadly, 2}, {{{3, 2}}, -1}};
    CHECK(elasticflow_shares(three, 8) == std::vector{2, 0, 0});
  }

  TEST_CASE("running jobs keep their minimum, then the queue's order counts, and what fits passes what does not") {
    const std::vector<ShareJob> jobs{{{{2, 2}}, -1}, {{{1, 1}}, 0}, {{{1, 1}}, -1}, {{{1, 1}}, -1}};
    CHECK(elasticflow_shares(jobs, 2) == std::vector{-1, 0, 0, -1});
    CHECK(elasticflow_shares(jobs, 3) == std::vector{0, 0, -1, -1});
  }

  TEST_CASE("no GPU goes where it brings nothing") {
    const std::vector<ShareJob> jobs{{{{1, 1}, {2, 1}, {4, 0.8}}, 0}};
    CHECK(elasticflow_shares(jobs, 8) == std::vector{0});
  }

  TEST_CASE("never more than there is, never less than the minimum of who runs") {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
      std::vector<ShareJob> jobs(1 + random() % 6);
      int held = 0;
      for (ShareJob& job : jobs) {
        double throughput = 0;
        for (int gpus = 1; gpus <= 16; gpus *= 2)
          if (random() % 4 > 0) job.levels.push_back({gpus, throughput += static_cast<double>(random() % 100) / 10});
        if (random() % 2 == 0 || job.levels.empty()) continue;
        job.level = static_cast<int>(random() % job.levels.size());
        held += job.levels[static_cast<std::size_t>(job.level)].gpus;
      }
      const int all = held + static_cast<int>(random() % 10);
      const auto level = elasticflow_shares(jobs, all);
      int used = 0;
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        if (level[j] >= 0) used += jobs[j].levels.at(static_cast<std::size_t>(level[j])).gpus;
        if (jobs[j].level >= 0) CHECK(level[j] >= 0);
      }
      CHECK(used <= all);
    }
  }
}
