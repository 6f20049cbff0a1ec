/* Only this file knows how Slurm's plugin interfaces differ between releases (22.05 to 26.05);
 * planner/slurm knows the rest. A SPANK plugin must be built for the major.minor release that loads
 * it. job_submit must be built for the micro release too. */
#ifndef ESPALIER_SPANK_SLURM_VERSIONS_H
#define ESPALIER_SPANK_SLURM_VERSIONS_H

#include "planner/slurm/release.h"

#include <slurm/spank.h>

/* From 23.11, words can be put before a task's own. Earlier releases can only exchange argv[0]. */
#define ESPALIER_PREPENDS_ARGV ESPALIER_SLURM_SINCE(23, 11)

/* Steps that users start have small numbers. Batch, extern, interactive and pending steps have
 * larger ones. */
#define ESPALIER_IS_USERS_STEP(step) ((step) < SLURM_MAX_NORMAL_STEP_ID)

/* Types and entry points of job_submit. Slurm's public headers do not declare them. */
typedef struct job_record job_record_t;
#if ESPALIER_SLURM_SINCE(23, 2)
#define ESPALIER_JOB_MODIFY_PARAMETERS \
  job_desc_msg_t *description, job_record_t *job, uint32_t submit_uid, char **message
#else
#define ESPALIER_JOB_MODIFY_PARAMETERS job_desc_msg_t *description, job_record_t *job, uint32_t submit_uid
#endif

/* slurmctld frees memory from a job_submit plugin with xfree, so the plugin must allocate it
 * with these. */
extern char* slurm_xstrdup(const char* text);
extern void* slurm_xrecalloc(void** array, size_t count, size_t size, _Bool clear, _Bool may_fail, const char* file,
                             int line, const char* function);
#define ESPALIER_XRECALLOC(array, count) \
  slurm_xrecalloc((void**)&(array), count, sizeof(*(array)), 1, 1, __FILE__, __LINE__, __func__)

#endif
