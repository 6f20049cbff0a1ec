// Runs one rank's list of operations, of any schedule.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "torchrt/data.hpp"
#include "torchrt/engine.hpp"
#include "torchrt/pace.hpp"
#include "torchrt/profiler/timed_group.hpp"
#include "torchrt/recovery/marks.hpp"
#include "torchrt/schedule/op.hpp"
#include "torchrt/step_agreement.hpp"
#include "torchrt/tied_rows.hpp"

namespace espalier::torchrt {

// For one thread. Collective: every rank of the world runs the same steps.
class Executor {
 public:
  explicit Executor(Engine engine);
  // `step` counts from 1. `vote` is asked once, late in the step. Throws AgreedError when a loss or
  // a gradient is not a finite number. The error names step and rank; no state was changed.
  StepOutcome run(std::int64_t step, const Data& data, const VoteQuestion& vote);
  // Connects the ranks between which this list's messages go. Collective.
  void connect();
  // Runs a step of one micro-batch without the update. Afterwards connections, kernels and buffers
  // are warm. The state is untouched.
  void rehearse(const Data& data);
  // Mean loss over the tokens of the first `samples` samples of `data`, forward only. `samples` is
  // a multiple of the global batch. `after_batch` is called after each global batch. `stop`: about once a second,
  // between two batches, all ranks ask whether to stop. One that says yes is enough; then all get no loss. Called again
  // before the next step, with the same `data` and `samples`, it goes on where it was stopped.
  std::optional<double> evaluate(const Data& data, int samples, const std::function<void()>& after_batch = {},
                                 const std::function<bool()>& stop = {});
  // `marks` is told when the state changes; null: nothing is told.
  void mark(Marks* marks) { marks_ = marks; }
  // Called between operations, for work beside training that needs this thread.
  void beside(std::function<void()> work) { beside_ = std::move(work); }
  // Called after all ranks have agreed on the step and before any state changes. The state does not
  // change until it returns.
  void before_change(std::function<void()> work) { before_change_ = std::move(work); }
  // `operations` and `sums` see those of run() only; `sums` are the tensor-parallel ones. Null: no observer and no
  // cost.
  void observe(OpObserver* operations, SumObserver* sums);

 private:
  class Unobserved;
  class Interruption;
  void execute(const std::vector<Op>& ops, const Data& data, std::uint64_t first_sample);
  void execute(const Op& op, const Data& data, std::uint64_t first_sample);
  void go_on_beside();
  void hold(const Op& op);
  void await_arrivals(const Op& op);
  void transfer(const Op& op);
  void start_reduction(int unit);
  void finish(std::map<int, std::unique_ptr<Pending>>& under_way, int unit);
  void agree();
  void update(int unit);
  const std::vector<Range>* parts(int unit) const;
  Address address(const Op& op) const;

  Engine engine_;
  const RankLayout& self_;
  const ScheduleOptions& options_;
  std::vector<Op> ops_, forward_ops_;
  StepAgreement agreement_;
  TiedRows tied_;
  OpObserver* observer_ = nullptr;
  SumObserver* sum_observer_ = nullptr;
  Marks* marks_ = nullptr;
  std::function<void()> beside_, before_change_;
  Pace pace_;  // where the engine has device_times

  // Of an evaluation: samples that are done, and this rank's sum of their losses.
  struct Evaluated {
    int samples = 0;
    double sum = 0;
  };
  Evaluated stopped_;  // one that was stopped after the current step

  // State of the current step.
  std::int64_t step_ = 0;
  bool rehearsal_ = false;
  // When the current operation began, or when its input had arrived.
  Pace::Clock::time_point began_;
  int micro_batches_ = 0;
  VoteQuestion vote_;
  StepOutcome outcome_;
  double scale_ = 1;
  // Of inputs (forward) and outputs' gradients (backward), by chunk and micro-batch.
  std::map<std::tuple<OpKind, int, int>, std::vector<std::unique_ptr<Pending>>> arrivals_;
  std::map<int, int> weighted_;  // by unit: micro-batches in the gradient of its parameters
  std::map<int, std::unique_ptr<Pending>> reductions_, gathers_;  // by unit
};

}  // namespace espalier::torchrt
