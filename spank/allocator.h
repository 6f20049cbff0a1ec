/* sbatch and salloc. The plugin checks the option's value here, job_submit checks the request. */
#ifndef ESPALIER_SPANK_ALLOCATOR_H
#define ESPALIER_SPANK_ALLOCATOR_H

#include "spank/slurm_versions.h"

void espalier_allocator_init(spank_t spank);

#endif
