// A user's own order of the stages' work (espalier-train --schedule FILE), as the planner takes it: the time of a step
// and the activations that it holds are those of its lists. It is for one number of stages and micro-batches and one
// placement of the chunks; all other plans run the schedule that the job names. Pure.
//
//   if (const OwnLists* own = lists_that_run(job, form, stages, micro_batches)) time = own->time(costs, after);
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/form_figures.hpp"
#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline/schedule.hpp"
#include "planner/core/pipeline_form.hpp"

namespace espalier {

// Bytes of the CSV that a job may tell: it is part of each report to the planner. 16 stages with 256 micro-batches: 50
// kB.
inline constexpr std::size_t kMostOwnLists = 64u << 10;

// The schedule of a job's plans that do not run its lists, with the lists' chunks: `named` where it places these as the
// lists do, else 1F1B, interleaved or ZB-V. Throws Error where the chunks of the lists lie neither round the stages
// (0 1 0 1) nor as a V (0 1 1 0).
PipelineForm form_beside(const pipeline::Schedule& lists, const std::string& named);

class OwnLists {
 public:
  // Equal texts that are in use are one object, so that each is read and simulated once. From any thread. Throws Error
  // when the text is longer than kMostOwnLists, is no sound schedule (pipeline/csv.hpp), or has its chunks neither
  // round the stages nor as a V. Empty: null.
  static std::shared_ptr<const OwnLists> of(const std::string& csv);

  // Whether a plan of so many stages and micro-batches, whose chunks lie as in `form`, runs these lists.
  bool run_on(PipelineForm form, int stages, int micro_batches) const;
  bool run_on(const Plan& plan) const;

  // As scheduled_time(), fill_share(), drain_share() and micro_batches_held() of a form.
  double time(const pipeline::Costs& costs, std::span<const double> after) const;
  double fill(WorkShares work) const;
  double drain() const { return in_parts_ ? 0 : 1.0 / form_.chunks; }
  double held(int stage, bool recompute) const;
  // The same where the chunks count `weight` each.
  double held(int stage, std::span<const double> weight, bool recompute) const;

  int stages() const { return static_cast<int>(lists_.actions.size()); }
  int micro_batches() const { return lists_.micro_batches; }
  PipelineForm form() const { return form_; }  // form_beside("")
  PipelineForm form_beside(const std::string& named) const { return espalier::form_beside(lists_, named); }

  explicit OwnLists(const std::string& csv);  // for of()

 private:
  pipeline::Schedule lists_;  // each B as I and W
  PipelineForm form_;
  bool in_parts_ = false;                    // the text itself has I and W
  std::array<std::vector<double>, 2> held_;  // of each stage; without and with recomputation
  mutable std::mutex mutex_;                 // decisions run on several threads
  mutable std::map<std::pair<int, int>, double> fills_;
};

// The job's own lists where such a plan runs them, else null.
const OwnLists* lists_that_run(const JobCoefficients& job, PipelineForm form, int stages, int micro_batches);

}  // namespace espalier
