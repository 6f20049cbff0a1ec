// The jobs that a command line names, as squeue shows them: "4711", or "4711_3" for task 3 of a job array.
#pragma once

#include <slurm/slurm.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "planner/cli/arguments.hpp"

namespace espalier::cli {

// The number of the job that `text` names; slurmctld is asked for that of an array's task. Throws UsageError where it
// names none, and Error where Slurm knows no such task.
std::uint32_t job_number(const std::string& text);
// The same of the operand `words[at]`.
std::uint32_t job_operand(const Arguments& arguments, std::size_t at);

// Whether `text` has one of these forms. Pure.
bool names_job(const std::string& text);

// A job array and the number of a task.
struct ArrayTask {
  std::uint32_t array = 0, task = 0;
  bool operator==(const ArrayTask&) const = default;
};
// nullopt: it is not of the form "4711_3". Pure.
std::optional<ArrayTask> array_task(const std::string& text);
// The number of the job that the task has among `jobs`. nullopt: it has none, e.g. as it has not started. Pure.
std::optional<std::uint32_t> job_of_task(std::span<const slurm_job_info_t> jobs, const ArrayTask& task);

}  // namespace espalier::cli
