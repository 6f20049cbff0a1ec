#include "launcher/job/held_gpus.hpp"

#include <algorithm>
#include <iterator>

#include "launcher/job/holdings.hpp"

namespace espalier::launcher {

std::vector<Holding> HeldGpus::all(bool with_acquired) const {
  std::vector<Holding> list = context_.anchor;
  for (const auto& more : {callbacks_.extensions(with_acquired), callbacks_.base_before()})
    list.insert(list.end(), more.begin(), more.end());
  return list;
}

std::vector<Holding> HeldGpus::own() const {
  auto own = usable(context_.anchor);
  if (!own.empty()) return own;
  std::copy_if(context_.anchor.begin(), context_.anchor.end(), std::back_inserter(own),
               [this](const Holding& holding) { return !lost(holding); });
  return own;
}

std::vector<Holding> HeldGpus::usable(std::vector<Holding> holdings) const {
  auto unfit = callbacks_.unfit();
  // An unfit GPU that the plan uses is not left out, because the planner ends extensions that no job claims.
  for (const GpuId& gpu : callbacks_.plan().ranks()) unfit.erase(gpu);
  for (Holding& holding : holdings)
    std::erase_if(holding.gpus, [&](int index) {
      return unfit.contains({holding.node, index}) || (holding.job == context_.base && lost(holding));
    });
  std::erase_if(holdings, [](const Holding& holding) { return holding.gpus.empty(); });
  return holdings;
}

bool HeldGpus::lost(const Holding& holding) const {
  if (holding.job == context_.base)
    return callbacks_.node_lost(holding.node) || answer_.withdrawn.contains(holding.node);
  return callbacks_.falters(holding.job) || answer_.closing.contains(holding.job);
}

std::set<GpuId> HeldGpus::left() const {
  std::set<GpuId> left;
  for (const Holding& holding : all(false))
    if (!lost(holding))
      for (const int index : holding.gpus) left.insert({holding.node, index});
  return left;
}

std::vector<GpuId> HeldGpus::with_idle(std::vector<GpuId> gpus, const std::set<GpuId>& without) const {
  std::set<GpuId> passed = without;
  passed.insert(gpus.begin(), gpus.end());
  const auto add = [&](const std::vector<Holding>& holdings) {
    for (const Holding& holding : holdings)
      for (const int index : holding.gpus)
        if (const GpuId gpu{holding.node, index}; !lost(holding) && passed.insert(gpu).second) gpus.push_back(gpu);
  };
  add(own());
  // An extension that the plan does not use at all is on its way back.
  auto lent = callbacks_.extensions(false);
  const GpusOfPlan used(callbacks_.plan());
  std::erase_if(lent, [&used](const Holding& holding) { return !used.any_of(holding); });
  add(usable(std::move(lent)));
  if (gpus.size() < static_cast<std::size_t>(context_.floor_gpus)) add(context_.anchor);
  return gpus;
}

}  // namespace espalier::launcher
