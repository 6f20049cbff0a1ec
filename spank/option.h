/* --elastic as Slurm hands it over, in every context that knows it. */
#ifndef ESPALIER_SPANK_OPTION_H
#define ESPALIER_SPANK_OPTION_H

#include "spank/elastic_option.h"
#include "spank/slurm_versions.h"

/* The environment variables by which Slurm carries the option: into a step, and as a default for srun. */
#define ESPALIER_OPTION_ENV "_SLURM_SPANK_OPTION_espalier_" ESPALIER_OPTION_NAME
#define ESPALIER_DEFAULT_ENV "SLURM_SPANK_" ESPALIER_OPTION_ENV

/* Must be called from slurm_spank_init of every context. */
void espalier_option_register(spank_t spank);

struct espalier_option {
  int given;
  int valid;
  char text[ESPALIER_VALUE_MAX]; /* as typed */
  struct espalier_elastic elastic;
  char why[ESPALIER_MESSAGE_MAX]; /* when not valid */
};

/* What the last callback said: Slurm may call it for the environment, the command line and the launch message. */
const struct espalier_option* espalier_option(void);

#endif
