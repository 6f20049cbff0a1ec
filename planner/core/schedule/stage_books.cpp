#include "planner/core/schedule/stage_books.hpp"

namespace espalier {

std::shared_ptr<StageBook> StageBooks::of(const std::shared_ptr<const Site>& site, const JobCoefficients& job,
                                          const PlanBounds& bounds) {
  if (site != site_) known_.clear();
  site_ = site;
  std::erase_if(known_, [](const Known& one) { return one.book.expired(); });
  for (const Known& one : known_)
    if (one.equal_shares == bounds.equal_shares && one.micro_batches == bounds.fixed_micro_batches && one.job == job)
      return one.book.lock();
  auto book = std::make_shared<StageBook>();
  known_.push_back({job, bounds.equal_shares, bounds.fixed_micro_batches, book});
  return book;
}

}  // namespace espalier
