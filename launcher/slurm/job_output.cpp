#include "launcher/slurm/job_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "planner/slurm/command.h"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

// A path may have spaces. Slurm writes the three paths of a job one after the other.
std::string output_in(const std::string& record) {
  const std::string name = " StdErr=", next = " Std";
  const auto at = record.find(name);
  if (at == std::string::npos) return "";
  const auto begin = at + name.size(), end = record.find_first_of("\n", begin);
  const std::string rest = record.substr(begin, end == std::string::npos ? end : end - begin);
  return rest.substr(0, rest.find(next));
}

std::string output_of(JobId job) {
  const std::unique_ptr<char, void (*)(void*)> record(espalier_slurm_job_text(job), std::free);
  return record ? output_in(record.get()) : "";
}

// Slurm made the file when the script started. One that this process made would be nobody's.
void add_line(const std::string& file, const std::string& line) {
  const wire::Descriptor end(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK));
  if (!end) return;
  const std::string text = line + "\n";
  // The job ends whether its user can be told or not.
  [[maybe_unused]] const auto written = ::write(end.get(), text.data(), text.size());
}

}  // namespace espalier::launcher
