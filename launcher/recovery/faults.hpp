// What a job remembers of its losses, and what follows: which GPUs the next attempt to go on uses, and when to stop
// trying. Pure: the launcher brings time and names what was lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::launcher {

class Faults {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The running generation was lost after `step`. `died`: GPUs whose ranks ended without a word or fell silent.
  // `explained`: GPUs of it are gone with their node or extension, so that the step is not to blame.
  void lost(Time now, std::int64_t step, const std::set<GpuId>& died, bool explained);
  // Did not come up, for whatever reason: attempts may do without, until there is progress.
  void suspect(const std::set<GpuId>& gpus) { suspects_.insert(gpus.begin(), gpus.end()); }
  // A generation that was to go on was lost before it could.
  void failed(Time now, const std::set<GpuId>& died);

  // The GPUs for the next attempt, of those of the lost generation that are left and in their order. First all (four
  // times) but the unfit, save one of them on a node that has no other, since the state that was left there is reached
  // from there only; then those where nothing died, then those of `anchor`, then the unfit too, which may be all
  // there is. Empty: there is no use in another.
  std::vector<GpuId> choose(Time now, const std::vector<GpuId>& left, const std::set<GpuId>& anchor) const;
  void tried(const std::vector<GpuId>& gpus);  // what choose() gave, or found no plan for
  // The last attempt failed for a reason that has nothing to do with its GPUs: it does not count.
  void excuse();
  int attempts() const { return attempts_; }  // since the last loss of a running generation
  // Why choose() gave nothing.
  std::string why_ended() const;

  // Where two ranks have died within an hour: not used, and the planner is asked for others.
  std::set<GpuId> unfit(Time now) const;

 private:
  bool step_is_to_blame() const;
  void note_deaths(Time now, const std::set<GpuId>& died);

  std::map<GpuId, std::vector<Time>> deaths_;
  std::set<GpuId> suspects_;  // since the last progress
  std::map<std::vector<GpuId>, int> tried_;
  std::vector<GpuId> last_tried_;
  int attempts_ = 0;
  std::int64_t furthest_ = -1;          // the last step done before any loss
  std::map<std::int64_t, int> losses_;  // by the last step done, as long as the job did not get past `furthest_`
  std::int64_t last_step_ = -1;         // done before the last loss
};

}  // namespace espalier::launcher
