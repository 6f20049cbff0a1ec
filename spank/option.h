/* The option --elastic as Slurm hands it over, in every context that uses it. */
#ifndef ESPALIER_SPANK_OPTION_H
#define ESPALIER_SPANK_OPTION_H

#include "spank/elastic_option.h"
#include "spank/slurm_versions.h"

/* The variable that carries the option into a step, and the variable with the default when no
 * option is given. */
#define ESPALIER_OPTION_ENV "_SLURM_SPANK_OPTION_espalier_" ESPALIER_OPTION_NAME
#define ESPALIER_DEFAULT_ENV "SLURM_SPANK_" ESPALIER_OPTION_ENV
/* The variable that hands the option to steps of a batch script or an interactive shell. Its
 * value is "JOB:VALUE", so that it ends with the job. srun always passes SLURM_ variables on,
 * even with --export=NONE. */
#define ESPALIER_INHERIT_ENV "SLURM_ESPALIER_ELASTIC"
/* Set to the job's id for all that an elastic step's tasks start. The launcher and keepers do
 * not replace these tasks again. */
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

/* Acts as if the option had been given on the node with the value `text`. */
void espalier_option_inherit(const char* text);

/* The result of the last callback. Slurm may call it for the environment, the command line and
 * the launch message. */
const struct espalier_option* espalier_option(void);

#endif
