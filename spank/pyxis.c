#include "spank/pyxis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/container.h"
#include "spank/option.h"

/* pyxis reads PYXIS_CONTAINER_IMAGE=x as --container-image=x, unless the option is given; and
 * PYXIS_CONTAINER_MOUNT_HOME=1 as --container-mount-home, with 0 as --no-container-mount-home. */
static const struct {
  const char *variable, *option, *opposite; /* no opposite: the option has a value */
} variables[] = {{"PYXIS_CONTAINER_IMAGE", "--container-image", NULL},
                 {"PYXIS_CONTAINER_MOUNTS", "--container-mounts", NULL},
                 {"PYXIS_CONTAINER_WORKDIR", "--container-workdir", NULL},
                 {"PYXIS_CONTAINER_NAME", "--container-name", NULL},
                 {"PYXIS_CONTAINER_ENV", "--container-env", NULL},
                 {"PYXIS_CONTAINER_SAVE", "--container-save", NULL},
                 {"PYXIS_CONTAINER_MOUNT_HOME", "--container-mount-home", "--no-container-mount-home"},
                 {"PYXIS_CONTAINER_REMAP_ROOT", "--container-remap-root", "--no-container-remap-root"},
                 {"PYXIS_CONTAINER_ENTRYPOINT", "--container-entrypoint", "--no-container-entrypoint"},
                 {"PYXIS_CONTAINER_WRITABLE", "--container-writable", "--container-readonly"},
                 {"PYXIS_CONTAINER_READONLY", "--container-readonly", "--container-writable"}};

/* 1, 0, or -1 for a word that pyxis does not take either. */
static int truth(const char* value) {
  static const char* const words[] = {"0", "1", "false", "true", "no", "yes", "n", "y"};
  for (int i = 0; i < 8; i++)
    if (strcmp(value, words[i]) == 0) return i % 2;
  return -1;
}

/* Whether a line of `lines` is "OPTION" or "OPTION=...". */
static int has(const char* lines, const char* option) {
  const size_t size = strlen(option);
  for (const char* line = lines; *line; line = strchr(line, '\n') + 1)
    if (strncmp(line, option, size) == 0 && (line[size] == '=' || line[size] == '\n')) return 1;
  return 0;
}

/* Appends to `lines` what the environment adds. Returns 0, or -1 when an option cannot be handed on. */
static int take_variables(char* lines, size_t size) {
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
    const char *value = getenv(variables[i].variable), *option = variables[i].option, *opposite = variables[i].opposite;
    if (!value || !*value || has(lines, option) || (opposite && has(lines, opposite))) continue;
    if (opposite && truth(value) < 0) continue;
    const size_t used = strlen(lines);
    const int length = opposite ? snprintf(lines + used, size - used, "%s\n", truth(value) ? option : opposite)
                                : snprintf(lines + used, size - used, "%s=%s\n", option, value);
    if (length < 0 || (size_t)length >= size - used || strchr(value, '\n') || has(lines, "--container-save")) return -1;
  }
  return 0;
}

/* What makes a step one that slurmstepd starts without the launcher (remote.c): several programs or components, or
 * another job than this one. Such a step keeps its container. */
static int is_plain(char* const* arguments, const char* job) {
  if (getenv("SLURM_HET_SIZE") || getenv("SLURM_CONTAINER")) return 1;
  for (char* const* at = arguments; *at; at++)
    if (strcmp(*at, ":") == 0) return 1;
  char* const* const end = arguments + espalier_container_options_end(arguments);
  for (char* const* at = arguments; at < end; at++) {
    const char* id = strncmp(*at, "--jobid=", 8) == 0 ? *at + 8 : strcmp(*at, "--jobid") == 0 && at[1] ? at[1] : NULL;
    if (strcmp(*at, "--multi-prog") == 0 || (id && !(job && strcmp(id, job) == 0))) return 1;
  }
  return 0;
}

/* Whether this srun starts an elastic step, by what stands before its options are read. */
static int is_elastic(char* const* arguments) {
  const char *job = getenv("SLURM_JOB_ID"), *of_job = getenv(ESPALIER_INHERIT_ENV),
             *active = getenv(ESPALIER_GUARD_ENV);
  int typed = 0;
  espalier_container_option(arguments, &typed);
  if ((job && active && strcmp(job, active) == 0) || is_plain(arguments, job)) return 0;
  if (typed || getenv(ESPALIER_OPTION_ENV) || getenv(ESPALIER_DEFAULT_ENV)) return 1;
  const size_t size = job ? strlen(job) : 0;
  return of_job && size > 0 && strncmp(of_job, job, size) == 0 && of_job[size] == ':';
}

/* The process that espalier_pyxis_leave() has begun anew. */
static int has_left(void) {
  const char* text = getenv(ESPALIER_PYXIS_STEP_ENV);
  char* end = NULL;
  if (!text) return 0;
  return strtol(text, &end, 10) == (long)getpid() && *end == '\n';
}

void espalier_pyxis_leave(void) {
  static char text[ESPALIER_PYXIS_MAX];
  size_t count = 0;
  if (has_left()) return;
  unsetenv(ESPALIER_PYXIS_STEP_ENV); /* of another srun */
  char** words = espalier_container_arguments(&count);
  if (!words || !is_elastic(words)) return;
  char** rest = calloc(count + 1, sizeof(*rest));
  if (!rest) return;
  const int start = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
  char* lines = text + start;
  if (espalier_container_take(words, rest, lines, sizeof(text) - (size_t)start) < 0 ||
      take_variables(lines, sizeof(text) - (size_t)start) != 0 ||
      !has(lines, "--container-image")) /* the name alone is that of a container on some other node */
    return;
  if (setenv(ESPALIER_PYXIS_STEP_ENV, text, 1) != 0) return;
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) unsetenv(variables[i].variable);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL); /* srun blocks signals before it loads its plugins */
  execv("/proc/self/exe", rest);
  slurm_spank_log("espalier: elastic: srun cannot begin anew outside of the container: %m; run it again");
  _exit(1);
}

const char* espalier_pyxis_options(spank_t spank) {
  static char text[ESPALIER_PYXIS_MAX];
  if (spank_getenv(spank, ESPALIER_PYXIS_STEP_ENV, text, sizeof(text)) != ESPANK_SUCCESS) return "";
  const char* first = strchr(text, '\n');
  return first ? first + 1 : "";
}
