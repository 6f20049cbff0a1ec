#include "planner/core/pipeline/generate.hpp"

#include "planner/core/error.hpp"
#include "planner/core/pipeline/generators/generators.hpp"

namespace espalier::pipeline {

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all = {
      {"1f1b", "one forward, one backward", 1, one_forward_one_backward},
      {"gpipe", "all forwards, then all backwards", 0, gpipe},
      {"interleaved", "1F1B on several chunks a rank", 0, interleaved},
      {"zb-h1", "backward in parts, memory of 1F1B", 1, zero_bubble_h1},
      {"zb-h2", "backward in parts, twice that memory", 1, zero_bubble_h2},
      {"zb-v", "two chunks in a V, memory of 1F1B", 2, zero_bubble_v},
      {"v-half", "the same, half of that memory", 2, v_half},
      {"v-min", "the same, the least memory of a V", 2, v_min},
      {"memory-min", "one micro-batch at a time", 0, memory_minimised},
  };
  return all;
}

const Generator& generator(const std::string& name) {
  std::string names;
  for (const Generator& one : generators()) {
    if (one.name == name) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  throw Error("schedule \"" + name + "\": there is none of this name; use one of " + names);
}

Schedule generate(const std::string& name, const Shape& shape) {
  const Generator& made = generator(name);
  const auto at_least_one = [](int number, const char* what) {
    if (number < 1) throw Error(std::string(what) + ": must be at least 1");
  };
  at_least_one(shape.ranks, "ranks");
  at_least_one(shape.micro_batches, "micro-batches");
  at_least_one(shape.chunks_per_rank, "chunks");
  if (made.chunks_per_rank > 0 && shape.chunks_per_rank != made.chunks_per_rank)
    throw Error("schedule " + name + ": has " + std::to_string(made.chunks_per_rank) + " chunk" +
                (made.chunks_per_rank == 1 ? "" : "s") + " on each rank, not " + std::to_string(shape.chunks_per_rank));
  return made.make(shape);
}

}  // namespace espalier::pipeline
