#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "planner/slurm/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/slurm/command.h"
#include "planner/slurm/release.h"

void espalier_slurm_free_conf(slurm_conf_t* conf) {
#if ESPALIER_SLURM_SINCE(26, 5)
  slurm_free_conf(conf);
#else
  slurm_free_ctl_conf(conf);
#endif
}

uint32_t espalier_slurm_exempt_seconds(const slurm_conf_t* conf) {
  return conf->preempt_exempt_time == INFINITE || conf->preempt_exempt_time == NO_VAL ? 0 : conf->preempt_exempt_time;
}

struct espalier_node_use espalier_slurm_node_use(const node_info_t* node) {
#if ESPALIER_SLURM_SINCE(25, 5)
  return (struct espalier_node_use){node->alloc_cpus, node->alloc_memory};
#else
  struct espalier_node_use use = {0, 0};
  slurm_get_select_nodeinfo(node->select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED, &use.cpus);
  slurm_get_select_nodeinfo(node->select_nodeinfo, SELECT_NODEDATA_MEM_ALLOC, NODE_STATE_ALLOCATED, &use.memory_mb);
  return use;
#endif
}

#if ESPALIER_SLURM_SINCE(23, 11)
/* The answer can be read only with the topology's plugin, and that plugin does not load into programs that use
 * libslurm: it needs names that only Slurm's own commands have. 24.11's libslurm even crashes when it prints what it
 * did not read. */
char* espalier_slurm_topology(void) { return ESPALIER_SLURM_COMMAND(60, "scontrol show topology", NULL); }
#else
char* espalier_slurm_topology(void) {
  topo_info_response_msg_t* topology = NULL;
  if (slurm_load_topo(&topology) != SLURM_SUCCESS) return NULL;
  char* text = NULL;
  size_t size = 0;
  /* Printing no records logs an error. */
  FILE* to = topology->record_count > 0 ? open_memstream(&text, &size) : NULL;
  if (to) {
    slurm_print_topo_info_msg(to, topology, 1);
    fclose(to);
  }
  slurm_free_topo_info_msg(topology);
  return text ? text : strdup("");
}
#endif
