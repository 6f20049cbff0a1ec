// released runs a step of a small model, bit by bit, and looks whether the memory in which gradients were summed, and
// the copies of a tied table's gradient, are given back. Prints what is held and ends with 1 where they are not.
#include <cstdio>

#include "tests/torchrt/small_rank.hpp"
#include "torchrt/model/prepare_torch.hpp"

using namespace espalier::torchrt;

namespace {

// Each of the two units that have the table adds the other's gradient to its own.
void add_tied(SmallRank& rank) {
  Compute& compute = rank.compute();
  for (const int unit : rank.units()) compute.reduced(unit);
  const int first = rank.units().front(), last = rank.units().back();
  const Range rows{0, rank.config().model.vocabulary};
  const Buffer embedding = compute.tied_gradient(first, rows), head = compute.tied_gradient(last, rows);
  compute.add_tied(first, rows, head);
  compute.add_tied(last, rows, embedding);
}

bool stays(bool tied) {
  SmallRank rank({.samples = 2, .tied = tied}, 0);
  Compute& compute = rank.compute();
  const std::size_t before = rank.held();
  compute.begin_step(1);
  compute.forward(0, 0, 0, rank.batch());
  for (auto unit = rank.units().rbegin(); unit != rank.units().rend(); ++unit) {
    compute.backward(0, *unit);
    compute.weight_gradient(0, *unit);
  }
  if (tied) add_tied(rank);
  else compute.begin_step(2);
  const std::size_t between = rank.held();
  compute.release_memory();
  const std::size_t after = rank.held();
  std::printf("%s: %zu bytes before the first step, %zu between two steps, %zu once released\n",
              tied ? "tied" : "untied", before, between, after);
  const auto width = static_cast<std::size_t>(rank.config().model.hidden);
  const std::size_t matrix = width * width * sizeof(float);
  const std::size_t table = width * static_cast<std::size_t>(rank.config().model.vocabulary) * sizeof(float);
  return between < before + (tied ? 2 * table : matrix) || after >= before + matrix;
}

}  // namespace

int main() {
  prepare_torch(1);
  const bool untied = stays(false), tied = stays(true);
  return untied || tied ? 1 : 0;
}
