#include "spank/job_script.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "planner/wire/event.h"
#include "spank/detach.h"
#include "spank/event_datagram.h"
#include "spank/site.h"

enum { kSeconds = 5 };

/* slurmd sets the SLURM_* variables of an epilog, and users can set only SPANK_* variables. The
 * value is checked all the same: an event holds only digits, commas, dashes and host name
 * characters. */
static const char* environment(const char* name, const char* allowed) {
  const char* value = getenv(name);
  return value && *value && strlen(value) < 512 && strspn(value, allowed) == strlen(value) ? value : NULL;
}

/* The exit code as a shell gives it. Slurm gives the status of wait(2), and 0 for a cancelled
 * job. */
static int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

static void report(uint32_t job, const char* gpus) {
  char event[ESPALIER_EVENT_MAX];
  const struct espalier_site* site = espalier_site();
  const char* node =
      environment("SLURMD_NODENAME", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
  if (!site->planner_host[0] || !node) return;
  const char* status = environment("SLURM_JOB_EXIT_CODE", "-0123456789");
  int n = snprintf(event, sizeof(event), ESPALIER_EVENT_MAGIC " gpus_released job=%u node=%s gpus=%s exit=%d", job,
                   node, gpus, exit_code(status ? atoi(status) : 0));
  if (n < 0 || (size_t)n >= sizeof(event)) return;
  if (espalier_detach(kSeconds) == 1) _exit(espalier_send_sealed(site->planner_host, site->planner_port, event) != 0);
}

/* Removes files that a killed launcher left behind. Runs as the user, because the folder is the
 * user's. */
static void clean(spank_t spank, uint32_t job) {
  uid_t uid = 0;
  char number[16];
  const char* const words[] = {espalier_site()->launcher, "clean", number, NULL};
  if (spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS) return;
  snprintf(number, sizeof(number), "%u", job);
  espalier_detach_exec_as(uid, words, kSeconds);
}

/* Whether a launcher of this job has left a folder at its usual place. Most jobs without GPUs are no movable jobs, and
 * starting a program at the end of each would cost the site more than looking. */
static int left_folder(spank_t spank, uint32_t job) {
  uid_t uid = 0;
  char pattern[64];
  glob_t found = {0};
  if (spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS) return 0;
  snprintf(pattern, sizeof(pattern), "/tmp/espalier-%u-%u-*", uid, job);
  int is_there = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
  globfree(&found);
  return is_there;
}

void espalier_job_epilog(spank_t spank) {
  uint32_t job = 0;
  const char* gpus = environment("SLURM_JOB_GPUS", "0123456789,-");
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return;
  if (gpus) report(job, gpus);
  if (gpus || left_folder(spank, job)) clean(spank, job);
}
