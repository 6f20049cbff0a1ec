// Jobs that are alike share what the model says of their stages.
#pragma once

#include <memory>
#include <vector>

#include "planner/core/solver/sketch.hpp"
#include "planner/core/solver/stage_book.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Keeps the books that were asked for last, so that the next job of a kind finds its book.
class StageBooks {
 public:
  std::shared_ptr<StageBook> of(const std::shared_ptr<const Site>& site, const JobCoefficients& job,
                                const PlanBounds& bounds);

 private:
  struct Known {
    JobCoefficients job;
    bool equal_shares = false;
    int micro_batches = 0;  // fixed; 0: all divisors
    std::shared_ptr<StageBook> book;
  };
  std::shared_ptr<const Site> site_;  // that all are for
  std::vector<Known> known_;          // the latest last
};

}  // namespace espalier
