#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <pthread.h>            /* slurmdb.h needs it and does not include it */
#include <stdio.h>
#include <stdlib.h>

#include "planner/slurm/settings.h"

#include "planner/slurm/release.h"

#include <slurm/slurmdb.h>

/* The list is a void pointer here: it converts to List, and to the type that later releases have. */
static char* printed(void* list) {
  char* text = NULL;
  size_t size = 0;
  char title[] = "";
  FILE* to = open_memstream(&text, &size);
  if (!to) return NULL;
  if (list) slurm_print_key_pairs(to, list, title);
  fclose(to);
  return text;
}

char* espalier_slurm_settings(slurm_conf_t* conf) {
  void* list = slurm_ctl_conf_2_key_pairs(conf);
  char* text = printed(list);
  if (list) slurm_list_destroy(list);
  return text;
}

char* espalier_slurm_cgroup_settings(slurm_conf_t* conf) { return printed(conf->cgroup_conf); }
