#include "launcher/recovery/slurm_answer.hpp"

#include "planner/core/error.hpp"

namespace espalier::launcher {

SlurmAnswer ask_slurm(const JobContext& context, const std::set<JobId>& jobs) {
  SlurmAnswer answer;
  try {
    for (const JobId id : jobs) {
      const auto job = load_job(id);
      if (!job || job->state == SlurmJob::State::completing || job->state == SlurmJob::State::ended) {
        if (id != context.job) answer.closing.insert(id);
      } else if (id == context.job) {
        for (const Holding& own : context.anchor) answer.withdrawn.insert(own.node);
        for (const Holding& held : job->holdings) answer.withdrawn.erase(held.node);
      }
    }
  } catch (const Error& error) {
    answer.away = error.what();
  }
  return answer;
}

}  // namespace espalier::launcher
