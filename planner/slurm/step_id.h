/* Step ids, for the C files of this folder. */
#ifndef ESPALIER_SLURM_STEP_ID_H
#define ESPALIER_SLURM_STEP_ID_H

#include "planner/slurm/release.h"

/* `step`: NO_VAL for the whole job. */
static inline slurm_step_id_t espalier_slurm_step_id(uint32_t job, uint32_t step) {
#ifdef SLURM_STEP_ID_INITIALIZER
  slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
#else
  slurm_step_id_t id = {.step_het_comp = NO_VAL};
#endif
  id.job_id = job;
  id.step_id = step;
  return id;
}

#endif
