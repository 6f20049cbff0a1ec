/* Only this file knows how Slurm's plugin interfaces differ between releases (22.05 to 25.11). A
 * SPANK plugin must be built for the major.minor release that loads it. job_submit must be built
 * for the micro release too. */
#ifndef ESPALIER_SPANK_SLURM_VERSIONS_H
#define ESPALIER_SPANK_SLURM_VERSIONS_H

/* slurm.h needs these first, but does not include them. */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "Espalier needs Slurm 22.05 or later"
#endif

#define ESPALIER_SLURM_SINCE(major, minor) (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(major, minor, 0))

/* From 23.11, words can be put before a task's own. Earlier releases can only exchange argv[0]. */
#define ESPALIER_PREPENDS_ARGV ESPALIER_SLURM_SINCE(23, 11)

/* Steps that users start have small numbers. Batch, extern, interactive and pending steps have
 * larger ones. */
#define ESPALIER_IS_USERS_STEP(step) ((step) < SLURM_MAX_NORMAL_STEP_ID)

/* From 26.05, slurm_load_job takes a step id. The check that uses it is then left to the
 * launcher. */
#define ESPALIER_LOADS_JOB_BY_NUMBER !ESPALIER_SLURM_SINCE(26, 5)

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
