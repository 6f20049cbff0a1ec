#include "planner/cli/job_operand.hpp"

#include <slurm/slurm_errno.h>

#include <cerrno>
#include <charconv>
#include <memory>

#include "planner/cli/start_slurm.hpp"
#include "planner/slurm/job_record.h"

namespace espalier::cli {
namespace {

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  return error != std::errc() || last != end || value >= NO_VAL ? std::nullopt : std::optional(value);
}

std::uint32_t ask_for(const std::string& text, const ArrayTask& task) {
  start_slurm("or give the task's own job id");
  job_info_msg_t* message = nullptr;
  if (espalier_slurm_load_job(&message, task.array, SHOW_ALL) != SLURM_SUCCESS)
    throw Error("job " + text + ": Slurm does not tell of it: " + slurm_strerror(errno));
  const std::unique_ptr<job_info_msg_t, decltype(&slurm_free_job_info_msg)> owner(message, slurm_free_job_info_msg);
  if (const auto job = job_of_task({message->job_array, message->record_count}, task)) return *job;
  throw Error("job " + text + ": the array has no such task that has started");
}

}  // namespace

std::optional<ArrayTask> array_task(const std::string& text) {
  const auto line = text.find('_');
  if (line == std::string::npos) return std::nullopt;
  const auto array = number(text.substr(0, line)), task = number(text.substr(line + 1));
  if (!array || *array == 0 || !task) return std::nullopt;
  return ArrayTask{*array, *task};
}

bool names_job(const std::string& text) { return array_task(text) || number(text).value_or(0) != 0; }

std::optional<std::uint32_t> job_of_task(std::span<const slurm_job_info_t> jobs, const ArrayTask& task) {
  for (const slurm_job_info_t& job : jobs)
    if (job.array_job_id == task.array && job.array_task_id == task.task) return espalier_slurm_job_id(&job);
  return std::nullopt;
}

std::uint32_t job_number(const std::string& text) {
  if (const auto task = array_task(text)) return ask_for(text, *task);
  if (!names_job(text)) throw UsageError("\"" + text + "\": is not a job id");
  return *number(text);
}

std::uint32_t job_operand(const Arguments& arguments, std::size_t at) {
  if (arguments.words.size() <= at) throw UsageError(arguments.words.back() + ": needs a job id");
  return job_number(arguments.words[at]);
}

}  // namespace espalier::cli
