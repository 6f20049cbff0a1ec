/* slurmd's start. The node reports its topology to the planner. */
#ifndef ESPALIER_SPANK_SLURMD_H
#define ESPALIER_SPANK_SLURMD_H

#include "spank/slurm_versions.h"

/* Starts espalier-report in the background and returns at once. Slurm may call it twice: a
 * second report is harmless. */
void espalier_slurmd_init(spank_t spank);

#endif
