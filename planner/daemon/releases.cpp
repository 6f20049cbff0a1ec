#include "planner/daemon/releases.hpp"

#include <algorithm>

namespace espalier {
namespace {

constexpr double kPatience = 3;            // seconds; slurmctld needs time to note a node's release
constexpr double kWholeJobPatience = 0.5;  // seconds to wait for the job's other nodes
constexpr double kSlowestAnswer = 60;      // a release may be reported while slurmctld answers what was asked before
constexpr std::size_t kMost = 4096;

bool still_held(const SlurmSnapshot& slurm, JobId job, const std::string& node) {
  const NodeView* view = slurm.cluster.find(node);
  return view != nullptr && std::find(view->gpu_owner.begin(), view->gpu_owner.end(), job) != view->gpu_owner.end();
}

}  // namespace

void Releases::reported(JobId job, const std::string& node, double at) {
  if (pending_.size() < kMost) pending_.push_back({job, node, at});
}

void Releases::look(const SlurmSnapshot& slurm) {
  std::erase_if(pending_, [&](const Release& release) {
    const double age = slurm.time - release.at;
    if (age < -kSlowestAnswer) return true;  // the clock was set back
    const SlurmJob* job = slurm.alive(release.job);
    // The GPUs of all nodes of a job should come into one decision.
    const bool rest_comes = job != nullptr && age < kWholeJobPatience;
    const bool held = still_held(slurm, release.job, release.node);
    if ((held || rest_comes) && age < kPatience) return false;
    if (!held) first_ = std::min(first_.value_or(release.at), release.at);
    return true;
  });
}

bool Releases::hold_decision(double now) {
  if (pending_.empty()) return false;
  if (!held_since_ || *held_since_ > now) held_since_ = now;
  return now - *held_since_ < kPatience;
}

double Releases::next_look(double now) const {
  double youngest = kPatience;
  for (const Release& release : pending_) youngest = std::min(youngest, std::max(0.0, now - release.at));
  return std::clamp(youngest / 4, 0.02, 0.5);
}

std::optional<double> Releases::take_first() {
  const auto result = first_;
  first_.reset();
  return result;
}

}  // namespace espalier
