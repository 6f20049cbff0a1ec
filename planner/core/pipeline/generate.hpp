// The known schedules, by name. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

struct Shape {
  int ranks = 1, micro_batches = 1, chunks_per_rank = 1;
};

struct Generator {
  const char* name;
  const char* summary;      // a few words
  int chunks_per_rank = 0;  // what it needs; 0: any number
  Schedule (*make)(const Shape& shape);
};

const std::vector<Generator>& generators();
// Throws Error that lists the names when there is none of this name.
const Generator& generator(const std::string& name);
// A sound schedule of this name, with its own placement of the chunks. Throws Error when the name is unknown, a number
// is below 1 or the number of chunks does not fit the name.
Schedule generate(const std::string& name, const Shape& shape);

}  // namespace espalier::pipeline
