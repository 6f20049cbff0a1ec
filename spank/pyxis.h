/* An elastic step in a container of pyxis. pyxis puts every task of a step into the step's container, and the launcher
 * cannot run there. So srun starts an elastic step without pyxis's options, and hands them to the launcher. On each
 * node that the job has, the launcher's rank server runs a step of its own with these options, which makes the
 * container, and starts the ranks in there (launcher/world/container.hpp). */
#ifndef ESPALIER_SPANK_PYXIS_H
#define ESPALIER_SPANK_PYXIS_H

#include "spank/slurm_versions.h"

/* Carries the options from srun to the step's nodes: "PID\n" of the srun, then each option, ended by a newline. srun
 * passes SLURM_ variables on even with --export=NONE. */
#define ESPALIER_PYXIS_STEP_ENV "SLURM_ESPALIER_PYXIS"
/* The same without the first line, for the launcher. */
#define ESPALIER_PYXIS_ENV "ESPALIER_PYXIS"
#define ESPALIER_PYXIS_MAX 16384 /* bytes of it */

/* For srun, before it has read its options. Where they start an elastic step in a container of pyxis, this process
 * begins anew without pyxis's options: then this function does not return. It returns where there is nothing to do, and
 * where the options cannot be handed on; espalier_local_check() then refuses the step. */
void espalier_pyxis_leave(void);

/* In slurmstepd: the options of this step, in static memory, each ended by a newline; empty: none. */
const char* espalier_pyxis_options(spank_t spank);

#endif
