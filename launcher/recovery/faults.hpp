// The memory of a job's losses. From it Faults decides which GPUs the next attempt to go on uses, and when the job
// gives up. Pure: the caller passes the time and the losses.
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
  // `explained`: the step is not to blame, e.g. because GPUs of the generation went with their node or extension.
  void lost(Time now, std::int64_t step, const std::set<GpuId>& died, bool explained);
  // The ranks on `gpus` did not start, for whatever reason. Attempts may leave these GPUs out until the job has made
  // progress, i.e. until a loss comes after a later step than all losses before.
  void suspect(const std::set<GpuId>& gpus) { suspects_.insert(gpus.begin(), gpus.end()); }
  // Their driver reports errors that make training on them unsafe.
  void faulty(Time now, const std::set<GpuId>& gpus);
  // The generation of an attempt was lost before it trained.
  void failed(Time now, const std::set<GpuId>& died);

  // Returns the GPUs for the next attempt, in the order of `left`. `left`: the lost generation's GPUs that are left,
  // and those that it left idle. Empty: another attempt is of no use. `least`: the job does not train on fewer GPUs.
  // Attempts use, one after the other, where they are so many:
  // 1. Four times: all fit GPUs. On a node without a fit GPU one unfit GPU is used as well, because only a process on
  //    the node reaches the state that was left there.
  // 2. Once: the GPUs of 1 on which no rank has died or failed to start since the last progress.
  // 3. Once: the anchor's GPUs among the GPUs of 2, or among the GPUs of 1 if there are none in 2.
  // 4. Four times: all of `left`. All of them may be unfit, or too few without the unfit ones.
  std::vector<GpuId> choose(Time now, const std::vector<GpuId>& left, const std::set<GpuId>& anchor,
                            int least = 1) const;
  // choose() returned `gpus`, and an attempt was made on them or no plan fits on them.
  void tried(const std::vector<GpuId>& gpus);
  // The last attempt does not count: it failed for a reason that has nothing to do with its GPUs, e.g. a restart of
  // slurmctld.
  void excuse();
  int attempts() const { return attempts_; }  // since the last loss of a running generation
  // Why choose() returned nothing, in words. `total_steps`: the number of the training's last step; 0: not known.
  std::string why_ended(std::int64_t total_steps = 0) const;

  // GPUs on which two ranks or more have died within the last hour, and those that were faulty() within it. Attempts
  // avoid them, and the planner is told to give the job others.
  std::set<GpuId> unfit(Time now) const;

 private:
  bool step_is_to_blame() const;
  void note_deaths(Time now, const std::set<GpuId>& died);

  std::size_t badness(const GpuId& gpu) const;

  std::map<GpuId, std::vector<Time>> deaths_;
  std::map<GpuId, Time> faulty_;             // when that was last said
  std::set<GpuId> suspects_;                 // GPUs whose ranks died or did not start since the last progress
  std::map<std::vector<GpuId>, int> tried_;  // attempts on these GPUs since the last loss of a running generation
  std::vector<GpuId> last_tried_;
  int attempts_ = 0;
  std::int64_t furthest_ = -1;  // the largest step that a loss came after
  // Losses that are not explained, by the last step done before them. Cleared when the job gets past `furthest_`.
  std::map<std::int64_t, int> losses_;
  std::int64_t last_step_ = -1;  // the last step done before the last loss
};

}  // namespace espalier::launcher
