// Pipeline schedules as text.
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/check.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void schedule_csv(std::string_view input) {
  try {
    const pipeline::Schedule read = pipeline::read_csv(std::string(input));
    require(pipeline::find_problems(read).empty());
    require(pipeline::read_csv(pipeline::write_csv(read)) == read);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
