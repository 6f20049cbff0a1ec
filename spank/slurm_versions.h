/* The one place that knows how Slurm's plugin interfaces differ between releases (22.05 to 26.05); planner/slurm knows
 * the rest. A SPANK plugin must be built for the major.minor that loads it, job_submit for the micro version too. */
#ifndef ESPALIER_SPANK_SLURM_VERSIONS_H
#define ESPALIER_SPANK_SLURM_VERSIONS_H

#include "planner/slurm/release.h"

#include <slurm/spank.h>

/* 23.11 can put words before a task's own; before, only argv[0] can be exchanged. */
#define ESPALIER_PREPENDS_ARGV ESPALIER_SLURM_SINCE(23, 11)

/* Steps that users start have small numbers; batch, extern, interactive and pending steps are above. */
#define ESPALIER_IS_USERS_STEP(step) ((step) < SLURM_MAX_NORMAL_STEP_ID)

/* job_submit's types and entry points, which the public headers do not declare. */
typedef struct job_record job_record_t;
#if ESPALIER_SLURM_SINCE(23, 2)
#define ESPALIER_JOB_MODIFY_PARAMETERS \
  job_desc_msg_t *description, job_record_t *job, uint32_t submit_uid, char **message
#else
#define ESPALIER_JOB_MODIFY_PARAMETERS job_desc_msg_t *description, job_record_t *job, uint32_t submit_uid
#endif

/* slurmctld frees with xfree what a job_submit plugin hands to it. */
extern char* slurm_xstrdup(const char* text);
extern void* slurm_xrecalloc(void** array, size_t count, size_t size, _Bool clear, _Bool may_fail, const char* file,
                             int line, const char* function);
#define ESPALIER_XRECALLOC(array, count) \
  slurm_xrecalloc((void**)&(array), count, sizeof(*(array)), 1, 1, __FILE__, __LINE__, __func__)

#endif
