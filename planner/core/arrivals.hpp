// Submissions of the recent past, and how often jobs arrive that may need the GPUs which are idle now (FlexTrain §5.1).
#pragma once

#include <deque>

namespace espalier {

// One job that was submitted to the cluster, elastic or not. Extensions are no submissions.
struct Submission {
  double time = 0;  // seconds, the clock of PlanningInput::now
  int gpus = 0;     // in total
  bool operator==(const Submission&) const = default;
};

// Not thread-safe.
class Arrivals {
 public:
  // No submission is remembered for longer than this: FlexTrain looks at "several hours to one day".
  static constexpr double kMostSeconds = 24 * 3600;
  // What a day's submissions cost is bounded: of more than these the oldest are forgotten.
  static constexpr std::size_t kMost = 65536;

  // Submissions are known from `since` on.
  explicit Arrivals(double since = 0) : since_(since) {}

  double since() const { return since_; }
  const std::deque<Submission>& recent() const { return recent_; }

  // Later than all before it, else it counts as submitted with the latest. Forgets what is too old.
  void add(Submission submission);

  // Submissions per second of jobs with at least `least_gpus` GPUs in the last `window` seconds, or
  // since the first moment that is known. 0: there were none.
  double rate(double now, double window, int least_gpus) const;

 private:
  double since_;
  std::deque<Submission> recent_;  // oldest first
};

}  // namespace espalier
