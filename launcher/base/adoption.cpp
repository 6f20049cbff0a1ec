#include "launcher/base/adoption.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {

void Adoption::heard(const wire::Continuation& left) {
  const auto age = [](const wire::Continuation& one) { return std::pair(one.restarts, one.number); };
  if (!continuation_ || age(*continuation_) < age(left)) continuation_ = left;
}

bool Adoption::came(JobId base) {
  if (awaited_.erase(base) == 0) return false;
  came_.insert(base);
  return true;
}

bool Adoption::ended(JobId base) { return awaited_.erase(base) + came_.erase(base) > 0; }

Adoption::Choice Adoption::choose(const std::function<bool(const wire::Continuation&)>& suits,
                                  const std::function<bool(JobId)>& enough) {
  const std::set<JobId> came = std::exchange(came_, {});
  std::set<JobId> usable = came;
  if (!continuation_ || !continuation_->source) std::erase_if(usable, [&](JobId base) { return !enough(base); });
  const bool fits = !continuation_ || suits(*continuation_);
  const JobId wanted = continuation_ ? continuation_->base : usable.empty() ? 0 : *usable.rbegin();
  Choice choice;
  if (fits && usable.contains(wanted)) choice.base = wanted;
  else if (fits && !usable.empty()) choice.base = *usable.rbegin();  // the one before, with what is left there
  else if (!fits) choice.why_none = "another program ran there";
  else choice.why_none = came.empty() ? "its keepers have ended" : "fewer GPUs than MIN are left of it";
  for (const JobId id : came)
    if (id != choice.base) choice.others.push_back(id);
  return choice;
}

bool Adoption::holds_state(const std::vector<Holding>& holdings) const {
  if (!continuation_ || !continuation_->source) return false;
  const auto& source = *continuation_->source;
  const auto used = [&](const auto& of) {
    const auto ranks = of.plan.ranks();
    return std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) {
      return std::any_of(holdings.begin(), holdings.end(), [&](const Holding& held) {
        return held.node == gpu.node && std::find(held.gpus.begin(), held.gpus.end(), gpu.index) != held.gpus.end();
      });
    });
  };
  return used(source) || std::any_of(source.earlier.begin(), source.earlier.end(), used);
}

}  // namespace espalier::launcher
