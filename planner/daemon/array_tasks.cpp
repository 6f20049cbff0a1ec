#include "planner/daemon/array_tasks.hpp"

#include <algorithm>
#include <charconv>

namespace espalier {
namespace {

// Reads a whole number from the front of `text`. False: there is none.
bool take_number(std::string_view& text, long& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

// "5", "5-7", "0-10:2". 0: it is not of this form.
long tasks_of(std::string_view range) {
  long first = 0, last = 0, step = 1;
  if (!take_number(range, first)) return 0;
  if (range.empty()) return 1;
  if (!take(range, '-') || !take_number(range, last)) return 0;
  if (take(range, ':') && !take_number(range, step)) return 0;
  return !range.empty() || last < first || step < 1 ? 0 : std::min<long>((last - first) / step, kMostArrayTasks) + 1;
}

}  // namespace

int named_tasks(std::string_view text) {
  text = text.substr(0, text.find('%'));
  if (const auto cut = text.find("..."); cut != std::string_view::npos) {
    // The number before the dots may be the beginning of a longer one.
    const auto comma = text.rfind(',', cut);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(0, comma);
  }
  long tasks = 0;
  while (!text.empty() && tasks < kMostArrayTasks) {
    const auto comma = std::min(text.find(','), text.size());
    tasks += tasks_of(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return static_cast<int>(std::min<long>(tasks, kMostArrayTasks));
}

void count_running(const slurm_job_info_t& job, RunningTasks& running) {
  const auto state = job.job_state & JOB_STATE_BASE;
  if (job.array_job_id == 0 || job.array_task_id == NO_VAL || (job.job_state & JOB_COMPLETING) != 0) return;
  if (state == JOB_RUNNING || state == JOB_SUSPENDED) ++running[job.array_job_id];
}

int waiting_tasks(const slurm_job_info_t& job, const RunningTasks& running) {
  if (job.array_job_id == 0 || job.array_task_id != NO_VAL || job.array_task_str == nullptr) return 1;
  const int tasks = std::max(1, named_tasks(job.array_task_str));
  if (job.array_max_tasks == 0 || job.array_max_tasks >= NO_VAL) return tasks;
  const auto now = running.find(job.array_job_id);
  const long room = static_cast<long>(job.array_max_tasks) - (now == running.end() ? 0 : now->second);
  return static_cast<int>(std::clamp<long>(room, 0, tasks));
}

}  // namespace espalier
