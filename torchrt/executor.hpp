// Runs one rank's list of operations, whatever schedule made it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/agreement.hpp"
#include "torchrt/comm/fabric.hpp"
#include "torchrt/data.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/model_flops.hpp"
#include "torchrt/pace.hpp"
#include "torchrt/recovery/marks.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// What one rank tells all others at the end of a step.
struct Vote {
  bool stop = false;  // it has been asked to stop after this step
  bool kept = true;   // what a loss needs of its state will outlive it
  CheckpointVote checkpoint;
};

// All ranks throw it together, with the same words: none is left waiting, and one voice is enough.
class AgreedError : public Error {
 public:
  using Error::Error;
};

struct StepOutcome {
  double loss = 0;             // mean over all tokens of the step
  double gradient_norm = 0;    // of the whole model, before clipping
  double learning_rate = 0;    // that the update used
  bool switch_agreed = false;  // some rank voted to stop; all ranks see the same answer
  bool kept = false;           // all ranks voted so
  CheckpointVote checkpoint;   // the sum of all ranks'
};

using VoteQuestion = std::function<Vote()>;

// What a rank computes on and whom it talks to. References outlive the executor.
struct Engine {
  const Config& config;
  const Layout& layout;
  World& world;
  Fabric& fabric;
  Device& device;
  Compute& compute;
  Group* replicas = nullptr;                // of the stage, with this rank's TP rank; null where there is one
  std::map<int, std::vector<Range>> parts;  // ZeRO-1: by unit, each replica's part of its elements; else empty
  std::optional<Pace> pace;                 // of the device, where operations are to last longer than they take
};

// The ranks of the world of one list each: "1f1b" or "gpipe", ZeRO-1 and tied tables as the configuration says.
ScheduleOptions schedule_options(const Config& config);

// One thread; collective: every rank of the world runs the same steps.
class Executor {
 public:
  explicit Executor(Engine engine);
  // `step` counts from 1. `vote` is asked once, late in the step. Throws AgreedError when a loss or a gradient is not a
  // number: it names step and rank, and nothing was updated.
  StepOutcome run(std::int64_t step, const Data& data, const VoteQuestion& vote);
  // A step of one micro-batch, without the update: connections, kernels and buffers are warm afterwards, the state is
  // untouched.
  void rehearse(const Data& data);
  // Mean loss over the tokens of the first `samples` samples of `data`, a multiple of the global batch; forward only.
  double evaluate(const Data& data, int samples);
  // Who is told when the state changes; null: nobody.
  void mark(Marks* marks) { marks_ = marks; }
  // Called between operations: what goes on beside training and needs this thread.
  void beside(std::function<void()> work) { beside_ = std::move(work); }
  // Called when all ranks have agreed on the step and nothing of the state has changed yet; nothing changes before it
  // returns.
  void before_change(std::function<void()> work) { before_change_ = std::move(work); }
  // Null: none, and no cost. Sees the operations of run() only.
  void observe(OpObserver* observer) { observer_ = observer; }

 private:
  struct TiedRows {
    Buffer buffer;
    std::unique_ptr<Pending> arrival;  // null: they are this rank's own
  };
  void execute(const std::vector<Op>& ops, const Data& data, std::uint64_t first_sample);
  void execute(const Op& op, const Data& data, std::uint64_t first_sample);
  void go_on_beside();
  void hold(const Op& op);
  void await_arrivals();
  void transfer(const Op& op);
  void start_reduction(int unit);
  void finish(std::map<int, std::unique_ptr<Pending>>& under_way, int unit);
  void receive_tied(const Op& op);
  void reserve_tied();
  Buffer tied_memory(std::size_t held, const Op& op);
  void agree();
  void update(int unit);
  [[noreturn]] void complain(bool bad_loss, bool bad_gradient);
  const std::vector<Range>* parts(int unit) const;
  Address address(const Op& op) const;

  Engine engine_;
  const RankLayout& self_;
  ScheduleOptions options_;
  std::vector<Op> ops_, forward_ops_;
  std::vector<std::size_t> norm_slots_;  // by unit: its first place in the agreement
  OpObserver* observer_ = nullptr;
  Marks* marks_ = nullptr;
  std::function<void()> beside_, before_change_;
  std::map<int, UnitFlops> flops_;  // by own unit; only with a pace

  // Of the step at hand.
  std::int64_t step_ = 0;
  bool rehearsal_ = false;
  Pace::Clock::time_point began_;  // the operation at hand, or what it waited for was there
  int micro_batches_ = 0;
  VoteQuestion vote_;
  StepOutcome outcome_;
  double scale_ = 1;
  std::vector<std::unique_ptr<Pending>> arrivals_;                // activations and gradients not waited for yet
  std::map<int, std::unique_ptr<Pending>> reductions_, gathers_;  // by unit
  std::map<std::pair<int, int>, TiedRows> tied_;                  // by unit and first row
  std::vector<std::unique_ptr<Allocation>> tied_memory_;          // kept from step to step
};

}  // namespace espalier::torchrt
