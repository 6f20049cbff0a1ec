#include "planner/slurm/hosts.h"

#include <stdlib.h>

#include "planner/slurm/release.h"

/* A void pointer converts to hostlist_t before 23.11 and to hostlist_t* since. */
static inline void* list_of(struct espalier_hosts* hosts) { return hosts; }

struct espalier_hosts* espalier_hosts_create(const char* text) {
  return (struct espalier_hosts*)slurm_hostlist_create(text);
}

void espalier_hosts_destroy(struct espalier_hosts* hosts) { slurm_hostlist_destroy(list_of(hosts)); }

char* espalier_hosts_shift(struct espalier_hosts* hosts) { return slurm_hostlist_shift(list_of(hosts)); }

void espalier_hosts_push(struct espalier_hosts* hosts, const char* name) {
  slurm_hostlist_push_host(list_of(hosts), name);
}

char* espalier_hosts_fold(struct espalier_hosts* hosts) {
  slurm_hostlist_uniq(list_of(hosts));
  /* The variant that allocates the text itself is gone since 23.11. */
  for (size_t size = 256;; size *= 2) {
    char* text = malloc(size);
    if (!text || slurm_hostlist_ranged_string(list_of(hosts), size, text) >= 0) return text;
    free(text);
  }
}
