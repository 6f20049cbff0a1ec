// The pause of a change, of generation or in place. It ends with the first step after the commit, which completes the
// figures: what each phase took is reported then, and predicts the next change. Runs on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "launcher/job/change.hpp"
#include "launcher/job/grace.hpp"

namespace espalier::launcher {

class Pause {
 public:
  using Report = std::function<void(const wire::Outcome&)>;
  // All references outlive this object. `report` gets each change once.
  Pause(const JobContext& context, const Generations& generations, const StepWatch& steps, Report report)
      : context_(context), generations_(generations), steps_(steps), report_(std::move(report)) {}

  // `under_way` has been committed, and waits for its first step from now on. Only its decision is left there: it is
  // still needed, for it says which extensions leave. A change that still waits for its first step is reported without
  // one.
  void begin(Change& under_way);
  const std::optional<Change>& awaiting_first_step() const { return awaiting_first_step_; }
  void abort(const std::string& why);  // the change that waits for its first step is reported as given up

  // A step was done: the first one on the new plan, in case a change waits for it.
  void stepped(const wire::Step& step);
  void progressed();  // a part of a validation was done; as above
  void lost();        // the job or its generation ends before such a step

  void generation_0_took(double seconds) { measured_.start = seconds; }
  double start_seconds() const { return measured_.start; }
  double predicted_seconds();  // that the next change is likely to take

 private:
  void finish(std::int64_t step, std::optional<double> step_seconds);

  const JobContext& context_;
  const Generations& generations_;
  const StepWatch& steps_;
  Report report_;
  std::optional<Change> awaiting_first_step_;
  MeasuredPhases measured_;
};

}  // namespace espalier::launcher
