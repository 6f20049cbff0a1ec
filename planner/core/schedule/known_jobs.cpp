#include "planner/core/schedule/known_jobs.hpp"

#include "planner/core/error.hpp"
#include "planner/core/schedule/job_coefficients.hpp"

namespace espalier {

std::unique_ptr<VirtualJob> kept_or_made(KnownJobs& known, const ElasticJob& job, const PlanningInput& input,
                                         const std::shared_ptr<const Site>& site, bool data_parallel_only,
                                         StageBooks& books) {
  try {
    const auto given = input.coefficients.find(job.id);
    const JobCoefficients coefficients = given != input.coefficients.end() ? given->second : assumed_for(job, *site);
    const auto found = known.find(job.id);
    if (found != known.end() && found->second && found->second->stands_for(job, site, coefficients))
      return std::move(found->second);
    return VirtualJob::make(job, site, coefficients, data_parallel_only, &books);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace espalier
