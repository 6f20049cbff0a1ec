/* srun, inside or outside an allocation. */
#ifndef ESPALIER_SPANK_LOCAL_H
#define ESPALIER_SPANK_LOCAL_H

#include <stddef.h>

#include "spank/elastic_option.h"
#include "spank/slurm_versions.h"

void espalier_local_init(spank_t spank);

/* 0, or -1 and `why`: inside an allocation, whether it can carry an elastic step at all. Outside of one, job_submit
 * checks the request. Asks slurmctld once; what cannot be learnt is left to the launcher. */
int espalier_local_check(const char* text, const struct espalier_elastic* elastic, char* why, size_t size);

#endif
