/* A job's record. From 26.05 on slurmctld is asked with a step id, and records hold one. */
#ifndef ESPALIER_SLURM_JOB_RECORD_H
#define ESPALIER_SLURM_JOB_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Asks slurmctld for one job with SHOW_ flags. Returns SLURM_SUCCESS, or SLURM_ERROR with errno. The caller frees the
 * answer with slurm_free_job_info_msg. May block for MessageTimeout. Any thread. */
int espalier_slurm_load_job(job_info_msg_t** answer, uint32_t job, uint16_t flags);

/* The job's number in its record, and in slurmctld's answer to its submission. */
uint32_t espalier_slurm_job_id(const slurm_job_info_t* job);
uint32_t espalier_slurm_submitted_id(const submit_response_msg_t* answer);

#ifdef __cplusplus
}
#endif

#endif
