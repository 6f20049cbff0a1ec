#include "planner/cli/job_operand.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace espalier::cli;

namespace {
// From Slurm 26.05 on the record holds a step id.
template <class Record>
void set_id(Record& record, std::uint32_t id) {
  if constexpr (requires { record.job_id; }) record.job_id = id;
  else record.step_id.job_id = id;
}
slurm_job_info_t record(std::uint32_t id, std::uint32_t array, std::uint32_t task) {
  slurm_job_info_t job{};
  set_id(job, id);
  job.array_job_id = array;
  job.array_task_id = task;
  return job;
}
}  // namespace

TEST_CASE("a job has a number, or that of its array and its own in it") {
  CHECK(job_number("4711") == 4711);
  CHECK_FALSE(array_task("4711"));
  CHECK(array_task("4711_3") == ArrayTask{4711, 3});
  CHECK(array_task("4711_0") == ArrayTask{4711, 0});
  for (const char* none : {"", "0", "A", "4711_", "_3", "0_3", "4711_x", "4711_3_1", "4711_[1-3]", "4294967295"}) {
    CAPTURE(none);
    CHECK_FALSE(array_task(none));
    CHECK_THROWS_AS(job_number(none), UsageError);
  }
}

TEST_CASE("a task of an array has a job of its own when it has started") {
  const std::vector<slurm_job_info_t> jobs{record(11, 11, NO_VAL), record(12, 11, 0), record(13, 11, 3),
                                           record(3, 0, 3)};
  CHECK(job_of_task(jobs, {11, 3}) == 13);
  CHECK(job_of_task(jobs, {11, 0}) == 12);
  CHECK_FALSE(job_of_task(jobs, {11, 4}));
  CHECK_FALSE(job_of_task({}, {11, 3}));
}
