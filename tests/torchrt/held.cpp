// held runs micro-batches through the last of two stages, and looks whether a micro-batch that is done leaves anything
// behind before the step ends. Prints what is held after some and after more, and ends with 1 where it grows.
#include <cstdio>
#include <cstring>

#include "tests/torchrt/small_rank.hpp"
#include "torchrt/model/prepare_torch.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

constexpr int kStage = 1, kFew = 2, kMany = 16;

// From its input to its weights' gradients. The gradient of its input is asked for as by who sends it.
void run(SmallRank& rank, int micro_batch, int samples) {
  Compute& compute = rank.compute();
  const Buffer input = compute.input(kStage, micro_batch, 0, samples);
  std::memset(input.data, 0, input.bytes());
  compute.forward(kStage, micro_batch, 0, rank.batch());
  for (auto unit = rank.units().rbegin(); unit != rank.units().rend(); ++unit) compute.backward(micro_batch, *unit);
  const Slice sent = compute.input_gradient(kStage, micro_batch, 0, samples);
  for (auto unit = rank.units().rbegin(); unit != rank.units().rend(); ++unit)
    compute.weight_gradient(micro_batch, *unit);
}

bool grows(Accuracy accuracy, int samples) {
  SmallRank rank({accuracy, 2, kMany, samples}, kStage);
  rank.compute().begin_step(1);
  int done = 0;
  while (done < kFew) run(rank, done++, samples);
  const std::size_t few = rank.held();
  while (done < kMany) run(rank, done++, samples);
  const std::size_t many = rank.held();
  std::printf("%s, %d samples: %zu bytes after %d micro-batches, %zu after %d\n",
              accuracy == Accuracy::bitwise ? "bitwise" : "relaxed", samples, few, kFew, many, kMany);
  return many > few;
}

}  // namespace

int main() {
  prepare_torch(1);
  // With several samples bitwise, the gradients of single samples are put together in memory of their own.
  const bool relaxed = grows(Accuracy::relaxed, 1), bitwise = grows(Accuracy::bitwise, 2);
  return relaxed || bitwise ? 1 : 0;
}
