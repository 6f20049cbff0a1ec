#include "launcher/recovery/faults.hpp"

#include <algorithm>

namespace espalier::launcher {
namespace {

constexpr auto kMemory = std::chrono::hours(1);
constexpr std::size_t kDeathsOfUnfit = 2;
constexpr int kLossesOfOneStep = 3;
constexpr int kAttemptsOnAll = 4;

std::vector<GpuId> only(const std::vector<GpuId>& gpus, const auto& wanted) {
  std::vector<GpuId> result;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(result), wanted);
  return result;
}

}  // namespace

void Faults::lost(Time now, std::int64_t step, const std::set<GpuId>& died, bool explained) {
  if (step > furthest_) {
    furthest_ = step;
    losses_.clear();
    suspects_.clear();
  }
  last_step_ = step;
  if (!explained) ++losses_[step];
  tried_.clear();
  last_tried_.clear();
  attempts_ = 0;
  note_deaths(now, died);
}

void Faults::faulty(Time now, const std::set<GpuId>& gpus) {
  for (const GpuId& gpu : gpus) faulty_[gpu] = now;
}

void Faults::failed(Time now, const std::set<GpuId>& died) { note_deaths(now, died); }

void Faults::note_deaths(Time now, const std::set<GpuId>& died) {
  for (const GpuId& gpu : died) deaths_[gpu].push_back(now);
  suspects_.insert(died.begin(), died.end());
}

std::set<GpuId> Faults::unfit(Time now) const {
  std::set<GpuId> result;
  for (const auto& [gpu, times] : deaths_) {
    const auto recent = [&](Time time) { return now - time < kMemory; };
    if (static_cast<std::size_t>(std::count_if(times.begin(), times.end(), recent)) >= kDeathsOfUnfit)
      result.insert(gpu);
  }
  for (const auto& [gpu, time] : faulty_)
    if (now - time < kMemory) result.insert(gpu);
  return result;
}

// Of an unfit GPU. A faulty one is worse than any on which ranks have only died.
std::size_t Faults::badness(const GpuId& gpu) const {
  constexpr std::size_t kFaulty = 1'000'000;
  const auto deaths = deaths_.find(gpu);
  return (faulty_.contains(gpu) ? kFaulty : 1) + (deaths == deaths_.end() ? 0 : deaths->second.size());
}

void Faults::tried(const std::vector<GpuId>& gpus) {
  ++tried_[gpus];
  ++attempts_;
  last_tried_ = gpus;
}

void Faults::excuse() {
  if (last_tried_.empty()) return;
  --tried_[last_tried_];
  --attempts_;
  last_tried_.clear();
}

std::vector<GpuId> Faults::choose(Time now, const std::vector<GpuId>& left, const std::set<GpuId>& anchor,
                                  int least) const {
  if (step_is_to_blame()) return {};
  const auto unfit_now = unfit(now);
  std::map<std::string, GpuId> reached;  // by node: a fit GPU, else the least bad one
  const auto badness_now = [&](const GpuId& gpu) { return unfit_now.contains(gpu) ? badness(gpu) : std::size_t{0}; };
  for (const GpuId& gpu : left) {
    const auto [best, first] = reached.try_emplace(gpu.node, gpu);
    if (!first && badness_now(gpu) < badness_now(best->second)) best->second = gpu;
  }
  const auto fit =
      only(left, [&](const GpuId& gpu) { return !unfit_now.contains(gpu) || reached.at(gpu.node) == gpu; });
  const auto quiet = only(fit, [&](const GpuId& gpu) { return !suspects_.contains(gpu); });
  const auto own = only(quiet.empty() ? fit : quiet, [&](const GpuId& gpu) { return anchor.contains(gpu); });
  for (const auto& [gpus, most] :
       {std::pair{fit, kAttemptsOnAll}, std::pair{quiet, 1}, std::pair{own, 1}, std::pair{left, kAttemptsOnAll}}) {
    const auto before = tried_.find(gpus);
    if (gpus.size() >= static_cast<std::size_t>(std::max(1, least)) &&
        (before == tried_.end() || before->second < most))
      return gpus;
  }
  return {};
}

// Losses count by step. A job that went back to an old checkpoint may be lost again before it reaches the bad step. The
// bad step is not to blame for such a loss.
bool Faults::step_is_to_blame() const {
  const auto losses = losses_.find(last_step_);
  return losses != losses_.end() && losses->second >= kLossesOfOneStep;
}

std::string Faults::why_ended(std::int64_t total_steps) const {
  if (step_is_to_blame())
    return (total_steps > 0 && last_step_ >= total_steps ? "what follows the last step (its checkpoint, a validation)"
                                                         : "step " + std::to_string(last_step_ + 1)) +
           " failed " + std::to_string(kLossesOfOneStep) + " times";
  return attempts_ == 0 ? "no GPU is left" : "it did not start again on any of the GPUs that are left";
}

}  // namespace espalier::launcher
