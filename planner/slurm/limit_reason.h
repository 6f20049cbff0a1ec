/* Limits that a job waits for, by the reason that Slurm gives. Any thread. */
#ifndef ESPALIER_SLURM_LIMIT_REASON_H
#define ESPALIER_SLURM_LIMIT_REASON_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whose limit of the accounting it is. Those of one job alone, such as MaxTRESPerJob, are none of these: no other job
 * counts there. */
enum espalier_limit_of {
  ESPALIER_LIMIT_NONE,
  ESPALIER_LIMIT_OF_QOS,
  ESPALIER_LIMIT_OF_USER_IN_QOS,
  ESPALIER_LIMIT_OF_ACCOUNT_IN_QOS,
  ESPALIER_LIMIT_OF_ACCOUNT,
  ESPALIER_LIMIT_OF_USER_IN_ACCOUNT
};

/* `reason`: of enum job_state_reason. */
enum espalier_limit_of espalier_slurm_limit_of(uint32_t reason);

/* Whether the job's time limit is longer than its partition allows: it waits until one of the two is changed. */
bool espalier_slurm_beyond_partition_time(uint32_t reason);

#ifdef __cplusplus
}
#endif

#endif
