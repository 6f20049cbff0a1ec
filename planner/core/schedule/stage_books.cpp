#include "planner/core/schedule/stage_books.hpp"

#include <algorithm>

namespace espalier {
namespace {

constexpr std::size_t kMost = 32;

}  // namespace

std::shared_ptr<StageBook> StageBooks::of(const std::shared_ptr<const Site>& site, const JobCoefficients& job,
                                          const PlanBounds& bounds) {
  if (site != site_) known_.clear();
  site_ = site;
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) {
    return one.equal_shares == bounds.equal_shares && one.micro_batches == bounds.fixed_micro_batches && one.job == job;
  });
  if (found != known_.end()) {
    std::rotate(found, found + 1, known_.end());
  } else {
    if (known_.size() >= kMost) known_.erase(known_.begin());
    known_.push_back({job, bounds.equal_shares, bounds.fixed_micro_batches, std::make_shared<StageBook>()});
  }
  return known_.back().book;
}

}  // namespace espalier
