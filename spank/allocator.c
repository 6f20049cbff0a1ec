#include "spank/allocator.h"

#include <stdlib.h>

#include "spank/option.h"

/* Inside a job, Slurm leaves that job's option in the environment as a default for srun. A new
 * job must not inherit it. */
static void forget_the_surrounding_job(void) {
  unsetenv(ESPALIER_OPTION_ENV);
  if (getenv("SLURM_JOB_ID")) unsetenv(ESPALIER_DEFAULT_ENV);
}

void espalier_allocator_init(spank_t spank) {
  forget_the_surrounding_job();
  espalier_option_register(spank);
}
