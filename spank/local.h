/* srun, inside or outside an allocation. */
#ifndef ESPALIER_SPANK_LOCAL_H
#define ESPALIER_SPANK_LOCAL_H

#include <stddef.h>

#include "spank/elastic_option.h"
#include "spank/slurm_versions.h"

void espalier_local_init(spank_t spank);

/* Inside an allocation, checks whether it can carry an elastic step. Outside an allocation,
 * job_submit checks the request instead. Returns 0, or -1 and `why`. Asks slurmctld once. Facts
 * that it cannot learn are left to the launcher. */
int espalier_local_check(const char* text, const struct espalier_elastic* elastic, char* why, size_t size);

#endif
