/* --elastic as Slurm hands it over, in every context that knows it. */
#ifndef ESPALIER_SPANK_OPTION_H
#define ESPALIER_SPANK_OPTION_H

#include "spank/elastic_option.h"
#include "spank/slurm_versions.h"

/* How Slurm carries the option into a step, and the default that it takes when none is given. */
#define ESPALIER_OPTION_ENV "_SLURM_SPANK_OPTION_espalier_" ESPALIER_OPTION_NAME
#define ESPALIER_DEFAULT_ENV "SLURM_SPANK_" ESPALIER_OPTION_ENV
/* How steps of a batch script or an interactive shell inherit it: "JOB:VALUE", so that it ends with the job. srun
 * passes SLURM_ variables on in every case, --export=NONE too. */
#define ESPALIER_INHERIT_ENV "SLURM_ESPALIER_ELASTIC"
/* Marks what an elastic step's tasks start, with the job's id: it is not exchanged again. */
#define ESPALIER_GUARD_ENV "ESPALIER_ACTIVE"

/* Must be called from slurm_spank_init of every context. */
void espalier_option_register(spank_t spank);

struct espalier_option {
  int given;
  int valid;
  char text[ESPALIER_VALUE_MAX]; /* as typed */
  struct espalier_elastic elastic;
  char why[ESPALIER_MESSAGE_MAX]; /* when not valid */
};

/* As if the option had been given on the node with this value. */
void espalier_option_inherit(const char* text);

/* What the last callback said: Slurm may call it for the environment, the command line and the launch message. */
const struct espalier_option* espalier_option(void);

#endif
