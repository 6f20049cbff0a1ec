/* slurmd's start: the node's topology goes to the planner. */
#ifndef ESPALIER_SPANK_SLURMD_H
#define ESPALIER_SPANK_SLURMD_H

#include "spank/slurm_versions.h"

/* Starts espalier-report in the background; returns at once. Slurm may call it twice: reporting again is harmless. */
void espalier_slurmd_init(spank_t spank);

#endif
