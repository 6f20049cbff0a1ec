#include "planner/daemon/private_jobs.hpp"

#include <cctype>
#include <charconv>

namespace espalier {
namespace {

constexpr std::string_view kJob = "job ";

bool begins_word(const std::string& text, std::size_t at) {
  return at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0;
}

}  // namespace

std::string without_jobs_of_others(const std::string& text, const SlurmSnapshot& slurm, uid_t reader) {
  if (!slurm.private_jobs) return text;
  std::string shown;
  std::size_t from = 0;
  for (std::size_t at = text.find(kJob); at != std::string::npos; at = text.find(kJob, at + 1)) {
    const char* const digits = text.data() + at + kJob.size();
    JobId id = 0;
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), id);
    if (end == digits || !begins_word(text, at)) continue;
    const auto job = slurm.jobs.find(id);
    if (error == std::errc() && job != slurm.jobs.end() && job->second.uid == reader) continue;
    shown.append(text, from, at - from).append("another job");
    from = static_cast<std::size_t>(end - text.data());
  }
  return shown.append(text, from);
}

}  // namespace espalier
