#include "spank/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spank/container.h"
#include "spank/deadline.h"
#include "spank/local.h"
#include "spank/site.h"

static struct espalier_option option;

const struct espalier_option* espalier_option(void) { return &option; }

/* `srun --jobid=N` makes a step of a job from anywhere. */
static int names_a_job(void) {
  size_t count = 0;
  char** words = espalier_container_arguments(&count);
  if (!words) return 0;
  const size_t end = espalier_container_options_end(words);
  for (size_t at = 1; at < end; at++)
    if (strcmp(words[at], "--jobid") == 0 || strncmp(words[at], "--jobid=", strlen("--jobid=")) == 0) return 1;
  return 0;
}

/* A step of a job that runs is no submission: whether it is late is for the launcher to say. */
static int submits_a_job(void) {
  if (spank_context() == S_CTX_LOCAL) return !getenv("SLURM_JOB_ID") && !names_a_job();
  return spank_context() == S_CTX_ALLOCATOR;
}

/* In the user's command a refusal ends the command. On a compute node the value may be forged or
 * come from a site with other limits, so it is checked again. A bad value does not fail there:
 * the step's start decides what to do. */
static int take(int val, const char* text, int remote) {
  (void)val;
  if (!text) text = "";
  option.given = 1;
  option.valid =
      espalier_elastic_parse(text, &option.elastic, option.why, sizeof(option.why)) == 0 &&
      espalier_elastic_fits_site(text, &option.elastic, espalier_site()->max_gpus, option.why, sizeof(option.why)) == 0;
  snprintf(option.text, sizeof(option.text), "%s", text);
  if (option.valid && !remote && spank_context() == S_CTX_LOCAL)
    option.valid = espalier_local_check(option.text, &option.elastic, option.why, sizeof(option.why)) == 0;
  if (option.valid && !remote && !espalier_site()->allows_late && submits_a_job())
    option.valid =
        espalier_deadline_check(option.text, &option.elastic, time(NULL), option.why, sizeof(option.why)) == 0;
  if (option.valid || remote) return 0;
  slurm_spank_log("%s", option.why);
  return -1;
}

void espalier_option_inherit(const char* text) { take(0, text, 1); }

void espalier_option_register(spank_t spank) {
  static char name[] = ESPALIER_OPTION_NAME, argument[] = "[MIN:MAX]";
  static char usage[] =
      "let the planner grow and shrink this job between MIN and MAX GPUs (default: the request and the site's limit); "
      "further "
      "[,accuracy=bitwise|relaxed][,deadline=YYYY-MM-DDTHH:MM][,movable[,base=GPUS][,types=TYPE+TYPE][,time=TIME]]";
  struct spank_option elastic = {name, argument, usage, 2 /* the argument is optional */, 0, take};
  if (spank_option_register(spank, &elastic) != ESPANK_SUCCESS)
    slurm_error("espalier: --elastic: Slurm refused the option; is another plugin using this name?");
}
