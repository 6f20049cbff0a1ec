/* Signals for jobs and steps, and the requeue of a job. 23.11 added flags to a step's, 25.11 and 26.05 address both by
 * a step id. Every function may block for MessageTimeout. Any thread. */
#ifndef ESPALIER_SLURM_KILL_H
#define ESPALIER_SLURM_KILL_H

#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns SLURM_SUCCESS, or SLURM_ERROR with errno. `flags`: KILL_ flags. */
int espalier_slurm_kill_job(uint32_t job, uint16_t signal, uint16_t flags);
int espalier_slurm_kill_step(uint32_t job, uint32_t step, uint16_t signal);

/* Has a batch job run once more. Returns as above; ESLURM_DISABLED: it may not be requeued. */
int espalier_slurm_requeue(uint32_t job);

/* The steps of one job. The caller frees the answer with slurm_free_job_step_info_response_msg. */
int espalier_slurm_get_steps(uint32_t job, job_step_info_response_msg_t** answer);

#ifdef __cplusplus
}
#endif

#endif
