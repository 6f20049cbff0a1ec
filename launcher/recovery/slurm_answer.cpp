#include "launcher/recovery/slurm_answer.hpp"

#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {

SlurmAnswer ask_slurm(const JobContext& context, const std::set<JobId>& jobs) {
  SlurmAnswer answer;
  try {
    if (context.movable && has_been_requeued(context.job, context.restarts)) {
      answer.requeued = true;
      return answer;
    }
    const auto seen = load_jobs(jobs);
    for (const JobId id : jobs) {
      const auto at = seen.find(id);
      const SlurmJob* const job = at == seen.end() ? nullptr : &at->second;
      if (job == nullptr || job->state == SlurmJob::State::completing || job->state == SlurmJob::State::ended) {
        if (id != context.base) answer.closing.insert(id);
        else if (context.movable)  // the base has ended, and the job has not
          for (const Holding& own : context.anchor) answer.withdrawn.insert(own.node);
      } else if (id == context.base) {
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
