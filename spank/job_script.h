/* slurmd's job_epilog: tells the planner that GPUs came free, and removes what a killed launcher left behind. */
#ifndef ESPALIER_SPANK_JOB_SCRIPT_H
#define ESPALIER_SPANK_JOB_SCRIPT_H

#include "spank/slurm_versions.h"

/* Returns at once; never fails. */
void espalier_job_epilog(spank_t spank);

#endif
