/* slurmd's job_epilog. It reports free GPUs to the planner and removes files that a killed
 * launcher left. */
#ifndef ESPALIER_SPANK_JOB_SCRIPT_H
#define ESPALIER_SPANK_JOB_SCRIPT_H

#include "spank/slurm_versions.h"

/* Returns at once; never fails. */
void espalier_job_epilog(spank_t spank);

#endif
