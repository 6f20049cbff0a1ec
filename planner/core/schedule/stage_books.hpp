// Shares the model's results for stages between similar jobs.
#pragma once

#include <memory>
#include <vector>

#include "planner/core/solver/sketch.hpp"
#include "planner/core/solver/stage_book.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Keeps the most recently used books, so that the next similar job finds its book.
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
  std::shared_ptr<const Site> site_;  // the site of all books
  std::vector<Known> known_;          // the latest is last
};

}  // namespace espalier
