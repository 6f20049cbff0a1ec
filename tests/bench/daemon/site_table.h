/* The jobs and nodes that espalierd sees in `espalier-bench daemon`: a file, mapped by the program that plays the
 * launchers (played_site.hpp) and read by the library in espalierd (slurm_answers.c). Plain C. */
#ifndef ESPALIER_BENCH_SITE_TABLE_H
#define ESPALIER_BENCH_SITE_TABLE_H

#include <pthread.h>
#include <stdint.h>

enum { SITE_NODE_GPUS = 8, SITE_RACK_NODES = 16, SITE_JOBS = 32768, SITE_HELD_NODES = 8 };
enum site_state { SITE_NONE, SITE_PENDING, SITE_RUNNING, SITE_ENDED };

#define SITE_NODE_NAME "g%04u"                    /* from g0000 on */
#define SITE_TABLE_VARIABLE "ESPALIER_BENCH_SITE" /* names the file */

struct site_held {
  uint16_t node;
  uint16_t gpus; /* a bit for each */
};

struct site_job {
  uint32_t id, uid;
  uint32_t anchor; /* of an extension; 0: not one */
  uint32_t state;  /* enum site_state */
  uint32_t wanted_gpus;
  uint32_t held_nodes;
  int64_t submitted, started, ended;
  struct site_held held[SITE_HELD_NODES];
};

struct site_table {
  pthread_mutex_t lock; /* of all processes */
  uint32_t nodes;
  uint32_t jobs; /* entries in use, from the first on */
  struct site_job job[SITE_JOBS];
};

#endif
