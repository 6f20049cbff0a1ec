// Runs one rank's list of operations, whatever schedule made it.
#pragma once

#include <functional>
#include <vector>

#include "torchrt/comm/world.hpp"
#include "torchrt/data.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

struct StepOutcome {
  double loss = 0;             // mean over all tokens of the step
  double gradient_norm = 0;    // of the whole model, before clipping
  bool switch_agreed = false;  // some rank asked for it; all ranks see the same answer
};

// Whether this rank has been asked to stop at the end of the step.
using SwitchQuestion = std::function<bool()>;

// References outlive it. One thread; collective: every rank of the world runs the same steps.
class Executor {
 public:
  Executor(const Config& config, const Schedule& schedule, World& world, Compute& compute, const Data& data);
  // `step` counts from 1. `switch_requested` is asked once, late in the step. Throws Error, also when the loss is not a
  // number.
  StepOutcome run(std::int64_t step, const SwitchQuestion& switch_requested);
  // A step of one micro-batch, without the update: connections, kernels and buffers are warm afterwards, the state is
  // untouched.
  void rehearse();

 private:
  void transfer(const Op& op);
  StepOutcome agree(std::int64_t step, bool switch_requested);
  StepOutcome execute(const Schedule& schedule, std::int64_t step, const SwitchQuestion& switch_requested,
                      bool rehearsal);
  std::size_t floats_per_sample() const;

  const Config& config_;
  const Schedule& schedule_;
  const RankLayout& layout_;
  World& world_;
  Compute& compute_;
  const Data& data_;
  Group replicas_;
  std::vector<float> input_, gradient_;
};

}  // namespace espalier::torchrt
