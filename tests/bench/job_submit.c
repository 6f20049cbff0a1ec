/* job_submit PLUGIN [CALLS]: what one submission costs slurmctld in our hook, under its locks. Calls the plugin as
 * slurmctld does and prints microseconds for a planner that listens, one whose queue is full, and none. Run inside a
 * box: the plugin's socket path is fixed. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "planner/wire/event.h"

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

typedef int submit_f(job_desc_msg_t*, uint32_t, char**);

static void measure(const char* name, submit_f* submit, int calls, const char* option) {
  static char gpus[] = "gres:gpu:h100:2";
  char entry[128];
  char* environment[] = {entry};
  double* took = calloc((size_t)calls, sizeof(*took));
  snprintf(entry, sizeof(entry), "_SLURM_SPANK_OPTION_espalier_elastic=%s", option ? option : "");
  for (int i = 0; i < calls; i++) {
    job_desc_msg_t job;
    char* message = NULL;
    slurm_init_job_desc_msg(&job);
    job.tres_per_node = gpus;
    job.min_nodes = 2;
    job.user_id = 4242;
    job.het_job_offset = NO_VAL; /* as slurmctld sets it */
    job.spank_job_env = environment;
    job.spank_job_env_size = option != NULL;
    double start = now_us();
    int status = submit(&job, 4242, &message);
    took[i] = now_us() - start;
    if (status != SLURM_SUCCESS) {
      fprintf(stderr, "refused: %s\n", message ? message : slurm_strerror(status));
      exit(1);
    }
  }
  qsort(took, (size_t)calls, sizeof(*took), by_value);
  printf("job_submit, %-28s calls=%d median_us=%.1f p99_us=%.1f max_us=%.1f\n", name, calls, took[calls / 2],
         took[calls * 99 / 100], took[calls - 1]);
  free(took);
}

static void* drain(void* fd) {
  char event[ESPALIER_EVENT_MAX];
  while (recv(*(int*)fd, event, sizeof(event), 0) > 0) continue;
  return NULL;
}

int main(int argc, char** argv) {
  struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = ESPALIER_RUN_DIR "/events.sock"};
  int calls = argc > 2 ? atoi(argv[2]) : 10000;
  if (argc < 2 || calls < 1) return fprintf(stderr, "job_submit PLUGIN [CALLS]\n"), 2;
  slurm_init(NULL);
  void* plugin = dlopen(argv[1], RTLD_NOW);
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*init)(void) = (int (*)(void))dlsym(plugin, "init");
  submit_f* submit = (submit_f*)dlsym(plugin, "job_submit");
  if (!init || !submit || init() != 0) return 1;

  unlink(path.sun_path);
  measure("no planner", submit, calls, "2:8");
  int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (bind(fd, (struct sockaddr*)&path, sizeof(path)) != 0) return perror(path.sun_path), 1;
  measure("planner's queue full", submit, calls, "2:8");
  pthread_t reader;
  pthread_create(&reader, NULL, drain, &fd);
  measure("planner listens, plain job", submit, calls, NULL);
  measure("planner listens, elastic job", submit, calls, "2:8");
  unlink(path.sun_path);
  return 0;
}
