#include "launcher/recovery/earlier_generations.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {
namespace {
// How many generations before the running one may still be needed after a loss, and how many of them keep their own
// state in the GPUs' memory. The others keep only snapshots.
constexpr std::size_t kMostEarlier = 6, kMostWhole = 2;
constexpr std::int64_t kSettlesAnyway = 100;  // steps after which a generation counts as settled
}  // namespace

void EarlierGenerations::take_over(int running, std::vector<Earlier> earlier) {
  running_ = running;
  list_ = std::move(earlier);
  has_trained_ = true;
}

void EarlierGenerations::succeed(const Plan& plan, int next, std::int64_t step) {
  list_.insert(list_.begin(), {running_, plan, false, step});
  for (auto& one : list_) one.step = std::min(one.step, step);
  if (list_.size() > kMostEarlier) list_.resize(kMostEarlier);
  for (std::size_t i = kMostWhole; i < list_.size(); ++i) list_[i].copies_only = true;
  running_ = next;
  has_trained_ = false;
  if (list_.size() > kMostWhole) keep_(what_to_keep());
}

void EarlierGenerations::stepped(const wire::Step& step) {
  if (list_.empty() && has_trained_) return;
  const bool first = !std::exchange(has_trained_, true);
  // The generation may have begun at an earlier step than intended, from an older checkpoint.
  if (first)
    for (auto& one : list_) one.step = std::min(one.step, step.step - 1);
  // A rank without a vault never settles. So after many steps the generation counts as settled anyway.
  const bool settled = step.settled || (!list_.empty() && step.step - list_.front().step >= kSettlesAnyway);
  if (!first && !settled) return;
  for (auto& one : list_) one.copies_only = true;
  if (settled) list_.clear();
  keep_(what_to_keep());
}

bool EarlierGenerations::make_room() {
  if (has_trained_ || std::all_of(list_.begin(), list_.end(), [](const auto& one) { return one.copies_only; }))
    return false;
  for (auto& one : list_) one.copies_only = true;
  keep_(what_to_keep());
  return true;
}

wire::Keep EarlierGenerations::what_to_keep() const {
  int whole = running_, copies = running_;
  for (const auto& one : list_) {
    copies = std::min(copies, one.generation);
    if (!one.copies_only) whole = std::min(whole, one.generation);
  }
  return {whole, copies};
}

}  // namespace espalier::launcher
