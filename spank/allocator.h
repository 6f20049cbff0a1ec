/* sbatch and salloc: the option's value is checked as it is typed, the request by job_submit. */
#ifndef ESPALIER_SPANK_ALLOCATOR_H
#define ESPALIER_SPANK_ALLOCATOR_H

#include "spank/slurm_versions.h"

void espalier_allocator_init(spank_t spank);

#endif
