// Every rule of a sound pipeline schedule, broken once.
#include "planner/core/pipeline/check.hpp"

#include <doctest/doctest.h>

#include "planner/core/pipeline/generate.hpp"

using namespace espalier::pipeline;

namespace {

using Sentences = std::vector<std::string>;

// Two ranks, two micro-batches: F0 F1 B0 B1 and F0 B0 F1 B1.
Schedule two_by_two() { return generate("1f1b", {2, 2, 1}); }

}  // namespace

TEST_CASE("a sound pipeline schedule has no problem, also with backward in parts") {
  CHECK(check(two_by_two()) == Sentences{});
  Schedule parts = two_by_two();
  parts.actions[1] = {{Compute::forward, 1, 0},         {Compute::backward_input, 1, 0},
                      {Compute::forward, 1, 1},         {Compute::backward_input, 1, 1},
                      {Compute::backward_weight, 1, 1}, {Compute::backward_weight, 1, 0}};
  CHECK(check(parts) == Sentences{});
}

TEST_CASE("a pipeline schedule without micro-batches, chunks or a rank's chunk is refused") {
  Schedule schedule = two_by_two();
  schedule.micro_batches = 0;
  CHECK(check(schedule) == Sentences{"the step has no micro-batch"});
  schedule = two_by_two();
  schedule.rank_of_chunk = {0, 0};
  CHECK(check(schedule) == Sentences{"rank 1: the rank holds no chunk"});
  schedule.rank_of_chunk = {0, 7};
  CHECK(check(schedule).front() == "chunk 1 is on no rank");
  CHECK(check({2, {}, {}}) == Sentences{"the model has no chunk"});
}

TEST_CASE("an action on a chunk or micro-batch that does not exist, or of another rank, is named") {
  Schedule schedule = two_by_two();
  schedule.actions[0][1].chunk = 5;
  CHECK(check(schedule).front() == "rank 0, operation 1 (5F1): there is no such chunk");
  schedule = two_by_two();
  schedule.actions[0][1].micro_batch = 2;
  CHECK(check(schedule).front() == "rank 0, operation 1 (0F2): there is no such micro-batch");
  schedule = two_by_two();
  schedule.actions[0][1].chunk = 1;
  CHECK(check(schedule).front() == "rank 0, operation 1 (1F1): the chunk is on rank 1");
}

TEST_CASE("a doubled action is named") {
  Schedule schedule = two_by_two();
  schedule.actions[0].insert(schedule.actions[0].begin(), {Compute::forward, 0, 0});
  CHECK(check(schedule) == Sentences{"rank 0, operation 1 (0F0): it is there twice"});
}

TEST_CASE("a missing forward, backward or part of a backward is named") {
  Schedule schedule = two_by_two();
  schedule.actions[0].pop_back();
  CHECK(check(schedule) == Sentences{"rank 0: 0B1 is missing: the chunk never runs backward on the micro-batch"});
  schedule.actions[0].push_back({Compute::backward_input, 0, 1});
  CHECK(check(schedule) == Sentences{"rank 0: 0W1 is missing: the gradient of the parameters is never computed"});
  schedule = two_by_two();
  schedule.actions[1].pop_back();
  schedule.actions[1].pop_back();
  CHECK(check(schedule) == Sentences{"rank 1: 1F1 is missing: the chunk never runs forward on the micro-batch",
                                     "rank 1: 1B1 is missing: the chunk never runs backward on the micro-batch"});
}

TEST_CASE("backward before forward, W before I, and backward both whole and in parts are named") {
  Schedule schedule = two_by_two();
  std::swap(schedule.actions[1][0], schedule.actions[1][1]);
  CHECK(check(schedule) == Sentences{"rank 1, operation 0 (1B0): it comes before its forward"});
  schedule = two_by_two();
  schedule.actions[1] = {{Compute::forward, 1, 0},
                         {Compute::backward_weight, 1, 0},
                         {Compute::backward_input, 1, 0},
                         {Compute::forward, 1, 1},
                         {Compute::backward, 1, 1}};
  CHECK(check(schedule) == Sentences{"rank 1, operation 1 (1W0): it comes before its gradient of the inputs"});
  schedule = two_by_two();
  schedule.actions[1].push_back({Compute::backward_weight, 1, 0});
  CHECK(check(schedule) == Sentences{"rank 1, operation 4 (1W0): backward is there as a whole and in parts"});
}

TEST_CASE("of a deadlock every rank that waits is named, with what it waits for") {
  Schedule schedule = two_by_two();
  // Rank 0 wants the gradient of micro-batch 0 before it sends micro-batch 1; rank 1 wants micro-batch 1 first.
  schedule.actions[0] = {
      {Compute::forward, 0, 0}, {Compute::backward, 0, 0}, {Compute::forward, 0, 1}, {Compute::backward, 0, 1}};
  schedule.actions[1] = {
      {Compute::forward, 1, 0}, {Compute::forward, 1, 1}, {Compute::backward, 1, 0}, {Compute::backward, 1, 1}};
  CHECK(check(schedule) == Sentences{"rank 0, operation 1 (0B0): deadlock: it waits for backward of chunk 1 on "
                                     "micro-batch 0, which rank 1 never reaches",
                                     "rank 1, operation 1 (1F1): deadlock: it waits for forward of chunk 0 on "
                                     "micro-batch 1, which rank 0 never reaches"});
}
