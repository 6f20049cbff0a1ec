// released runs a step of a small model, bit by bit, and looks whether the memory in which gradients were summed is
// given back. Prints what is held and ends with 1 where it is not.
#include <cstdio>

#include "tests/torchrt/small_rank.hpp"
#include "torchrt/model/prepare_torch.hpp"

using namespace espalier::torchrt;

int main() {
  prepare_torch(1);
  SmallRank rank({.samples = 2}, 0);
  Compute& compute = rank.compute();
  const std::size_t before = rank.held();
  compute.begin_step(1);
  compute.forward(0, 0, 0, rank.batch());
  for (auto unit = rank.units().rbegin(); unit != rank.units().rend(); ++unit) {
    compute.backward(0, *unit);
    compute.weight_gradient(0, *unit);
  }
  compute.begin_step(2);
  const std::size_t between = rank.held();
  compute.release_memory();
  const std::size_t after = rank.held();
  std::printf("%zu bytes before the first step, %zu between two steps, %zu once released\n", before, between, after);
  const auto width = static_cast<std::size_t>(rank.config().model.hidden);
  const std::size_t matrix = width * width * sizeof(float);
  return between >= before + matrix && after < before + matrix ? 0 : 1;
}
