#include "planner/daemon/slurm.hpp"

#include <charconv>

namespace espalier {

const SlurmJob* SlurmSnapshot::alive(JobId id) const {
  const auto found = jobs.find(id);
  return found == jobs.end() || found->second.state == SlurmJobState::ended ? nullptr : &found->second;
}

bool SlurmSnapshot::is_within(const std::string& account, const std::string& above) const {
  return shares ? shares->is_within(account, above) : account == above;
}

int gpus_of(const std::vector<Holding>& holdings) {
  std::size_t sum = 0;
  for (const Holding& held : holdings) sum += held.gpus.size();
  return static_cast<int>(sum);
}

namespace {

// The number behind `prefix`, with a colon behind it; 0: there is none.
JobId job_behind(const std::string& prefix, const std::string& comment) {
  if (!comment.starts_with(prefix)) return 0;
  JobId anchor = 0;
  const char* first = comment.data() + prefix.size();
  const auto [end, error] = std::from_chars(first, comment.data() + comment.size(), anchor);
  return error == std::errc() && end != first && end != comment.data() + comment.size() && *end == ':' ? anchor : 0;
}

}  // namespace

JobId anchor_of_comment(const std::string& comment) { return job_behind("espalier:ext:", comment); }
JobId submitted_of_base(const std::string& comment) { return job_behind("espalier:base:", comment); }

}  // namespace espalier
