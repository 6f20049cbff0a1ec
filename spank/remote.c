#include "spank/remote.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spank/container.h"
#include "spank/detach.h"
#include "spank/multi_prog.h"
#include "spank/option.h"
#include "spank/pyxis.h"
#include "spank/site.h"

static struct {
  int elastic;                    /* the launcher and keepers replace the step's tasks */
  char why[ESPALIER_MESSAGE_MAX]; /* why an option did not apply; task 0 prints it once */
  unsigned long mounts;           /* slurmstepd's mount namespace */
  int* in_container;              /* set by task 0, read by slurmstepd; null: no memory */
  const char* pyxis;              /* options of the container that ranks enter; empty: none */
} step = {.pyxis = ""};

void espalier_remote_init(spank_t spank) { espalier_option_register(spank); }

static int in_environment(spank_t spank, const char* name) {
  char value[8];
  spank_err_t rc = spank_getenv(spank, name, value, sizeof(value));
  return rc == ESPANK_SUCCESS || rc == ESPANK_NOSPACE;
}

/* Slurm removes the option from the environment of a batch script or an interactive shell. This
 * variable keeps it. */
static void hand_on(spank_t spank, uint32_t job) {
  const struct espalier_option* option = espalier_option();
  char entry[ESPALIER_VALUE_MAX + 16];
  if (!option->given || !option->valid) return;
  snprintf(entry, sizeof(entry), "%u:%s", job, option->text);
  spank_setenv(spank, ESPALIER_INHERIT_ENV, entry, 1);
}

static void inherit(spank_t spank, uint32_t job) {
  char entry[ESPALIER_VALUE_MAX + 16], prefix[16];
  int length = snprintf(prefix, sizeof(prefix), "%u:", job);
  if (spank_getenv(spank, ESPALIER_INHERIT_ENV, entry, sizeof(entry)) == ESPANK_SUCCESS &&
      strncmp(entry, prefix, (size_t)length) == 0)
    espalier_option_inherit(entry + length);
}

/* Whether this step was started from an elastic step of the same job. */
static int is_nested(spank_t spank, uint32_t job) {
  char value[16], id[16];
  snprintf(id, sizeof(id), "%u", job);
  return spank_getenv(spank, ESPALIER_GUARD_ENV, value, sizeof(value)) == ESPANK_SUCCESS && strcmp(value, id) == 0;
}

static void refuse(const char* problem) {
  const char* then = step.pyxis[0] ? "the step ends" : "the step runs without elasticity";
  espalier_elastic_refusal(espalier_option()->text, problem, then, step.why, sizeof(step.why));
}

void espalier_remote_post_opt(spank_t spank) {
  const struct espalier_option* option = espalier_option();
  uint32_t job = 0, id = 0;
  int argc = 0;
  char** argv = NULL;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &id) != ESPANK_SUCCESS)
    return;
  if (!ESPALIER_IS_USERS_STEP(id)) {
    hand_on(spank, job);
    return;
  }
  step.pyxis = espalier_pyxis_options(spank);
  if (!option->given) inherit(spank, job);
  if (!option->given || is_nested(spank, job)) return;
  if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1) return;
  if (!option->valid) {
    snprintf(step.why, sizeof(step.why), "%.400s; the step runs without elasticity", option->why);
  } else if (in_environment(spank, "SLURM_HET_SIZE")) {
    refuse("heterogeneous jobs cannot be elastic");
  } else if (argc > 1 && espalier_is_multi_prog(argv[1])) {
    refuse("--multi-prog starts several programs");
  } else if (in_environment(spank, ESPALIER_CONTAINER_ENV) || in_environment(spank, "SLURM_CONTAINER")) {
    refuse("a step that Slurm or a plugin starts in a container cannot be elastic");
  } else {
    step.elastic = 1;
    step.mounts = espalier_mount_namespace();
    void* shared = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    step.in_container = shared == MAP_FAILED ? NULL : shared;
  }
}

/* Whether another plugin, pyxis for one, has put this task into a container. srun tells so (ESPALIER_CONTAINER), unless
 * its environment stays behind (--export=NONE). Only a plugin that plugstack.conf names
 * before this one has done so by now. */
static int in_container(uint32_t task) {
  if (step.mounts == 0 || espalier_mount_namespace() == step.mounts) return 0;
  if (task == 0) {
    if (step.in_container) *step.in_container = 1;
    refuse("a step that Slurm or a plugin starts in a container cannot be elastic");
    slurm_spank_log("%s", step.why);
  }
  return 1;
}

static void set_number(spank_t spank, const char* name, long value) {
  char text[24];
  snprintf(text, sizeof(text), "%ld", value);
  spank_setenv(spank, name, text, 1);
}

static void set_environment(spank_t spank) {
  uint32_t job = 0;
  const struct espalier_elastic* e = &espalier_option()->elastic;
  set_number(spank, "ESPALIER_MIN", e->min);
  set_number(spank, "ESPALIER_MAX", e->max ? e->max : espalier_site()->max_gpus);
  if (e->accuracy_given) spank_setenv(spank, "ESPALIER_ACCURACY", e->relaxed ? "relaxed" : "bitwise", 1);
  else spank_unsetenv(spank, "ESPALIER_ACCURACY");
  spank_setenv(spank, "ESPALIER_DEADLINE", e->deadline, 1);
  spank_setenv(spank, "ESPALIER_NODE_SETUP", e->node_setup, 1);
  if (e->movable) {
    spank_setenv(spank, "ESPALIER_MOVABLE", "1", 1);
    spank_setenv(spank, "ESPALIER_TYPES", e->types, 1);
    set_number(spank, "ESPALIER_BASE", e->base);
    set_number(spank, "ESPALIER_TIME", e->minutes);
  } else {
    spank_unsetenv(spank, "ESPALIER_MOVABLE");
  }
  if (step.pyxis[0]) spank_setenv(spank, ESPALIER_PYXIS_ENV, step.pyxis, 1);
  else spank_unsetenv(spank, ESPALIER_PYXIS_ENV);
  char id[16];
  spank_get_item(spank, S_JOB_ID, &job);
  snprintf(id, sizeof(id), "%u", job);
  spank_setenv(spank, ESPALIER_GUARD_ENV, id, 1);
}

static int exchange(spank_t spank, const char* role) {
#if ESPALIER_PREPENDS_ARGV
  const char* words[] = {espalier_site()->launcher, role, "--"};
  spank_unsetenv(spank, "ESPALIER_TASK");
  return spank_prepend_task_argv(spank, 3, words) == ESPANK_SUCCESS ? 0 : -1;
#else
  int argc = 0;
  char** argv = NULL;
  if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1) return -1;
  if (spank_setenv(spank, "ESPALIER_PROGRAM", argv[0], 1) != ESPANK_SUCCESS ||
      spank_setenv(spank, "ESPALIER_TASK", role, 1) != ESPANK_SUCCESS)
    return -1;
  char* launcher = strdup(espalier_site()->launcher); /* this process only execs */
  if (!launcher) return -1;
  argv[0] = launcher;
  return 0;
#endif
}

/* Blocks SIGHUP in a keeper until the keeper listens. When task 0 ends at once, task_exit below
 * may send SIGHUP before that. SIGHUP would then kill the keeper, and the step would end with
 * that signal instead of the program's exit code. */
static void hold_hangup(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Without a launcher the program of a movable job would run on no GPUs, since the submitted job holds none; and that of
 * a step in pyxis's container outside of it. */
static void end_if_bare(void) {
  const int movable = espalier_option()->valid && espalier_option()->elastic.movable;
  if (!movable && !step.pyxis[0]) return;
  slurm_spank_log(
      movable ? "espalier: launch: a movable job has no GPUs without its launcher; this task ends"
              : "espalier: launch: only its launcher can start this step's program in its container; this task ends");
  _exit(1);
}

void espalier_remote_task_init(spank_t spank) {
  uint32_t task = 0;
  int local_task = 0;
  if (step.pyxis[0] && !step.elastic && !step.why[0]) end_if_bare();
  if (!espalier_option()->given || spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_TASK_ID, &local_task) != ESPANK_SUCCESS)
    return;
  if (step.why[0] && task == 0) slurm_spank_log("%s", step.why);
  if (step.why[0]) end_if_bare();
  if (!step.elastic) return;
  if (in_container(task)) {
    end_if_bare();
    return;
  }
  const char* launcher = espalier_site()->launcher;
  if (access(launcher, X_OK) != 0) {
    char node[256] = "this node";
    gethostname(node, sizeof(node) - 1);
    if (local_task == 0)
      slurm_spank_log(
          "espalier: launch: %s cannot be executed on %s: %m; no elasticity there; "
          "ask the administrator to install it or to set launcher= in plugstack.conf",
          launcher, node);
    end_if_bare();
    return;
  }
  if (exchange(spank, task == 0 ? "run" : "keeper") == 0) {
    set_environment(spank);
    if (task != 0) hold_hangup();
  } else {
    slurm_spank_log("espalier: launch: task %u cannot be exchanged; it runs without elasticity", task);
    end_if_bare();
  }
}

/* Ends the keepers. A step ends with its last task, and keepers wait for the launcher. scancel
 * asks slurmctld, which reaches every node of the step. It runs in a detached child, so that
 * slurmstepd does not wait when slurmctld is away. Without it the keepers would hold the step's
 * nodes, so a slurmctld that is away is asked again for ten minutes. */
void espalier_remote_task_exit(spank_t spank) {
  uint32_t task = 0, job = 0, id = 0, tasks = 0;
  if (!step.elastic || (step.in_container && *step.in_container) ||
      spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS || task != 0 ||
      spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || tasks < 2)
    return;
  char name[32];
  snprintf(name, sizeof(name), "%u.%u", job, id);
  const char* const words[] = {"scancel", "--quiet", "--signal=HUP", name, NULL};
  espalier_detach_exec_until_heard(words, 30, 600);
}
