#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "planner/slurm/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/slurm/release.h"

void espalier_slurm_free_conf(slurm_conf_t* conf) {
#if ESPALIER_SLURM_SINCE(26, 5)
  slurm_free_conf(conf);
#else
  slurm_free_ctl_conf(conf);
#endif
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

typedef int load_only(topo_info_response_msg_t**);
typedef int load_named(topo_info_response_msg_t**, char*);
static inline int load_the_only(load_only* call, topo_info_response_msg_t** answer) { return call(answer); }
static inline int load_default(load_named* call, topo_info_response_msg_t** answer) { return call(answer, NULL); }

typedef void print_all(FILE*, topo_info_response_msg_t*, int);
typedef void print_nodes(FILE*, topo_info_response_msg_t*, char*, int);
typedef void print_units(FILE*, topo_info_response_msg_t*, char*, char*, int);
static inline void print_plain(print_all* call, FILE* out, topo_info_response_msg_t* topology) {
  call(out, topology, 1);
}
static inline void print_all_nodes(print_nodes* call, FILE* out, topo_info_response_msg_t* topology) {
  call(out, topology, NULL, 1);
}
static inline void print_all_units(print_units* call, FILE* out, topo_info_response_msg_t* topology) {
  call(out, topology, NULL, NULL, 1);
}

/* Until 23.02 a cluster without switches has no records, and printing none logs an error. */
static int has_records(const topo_info_response_msg_t* topology) {
#if ESPALIER_SLURM_SINCE(23, 11)
  return topology != NULL;
#else
  return topology && topology->record_count > 0;
#endif
}

char* espalier_slurm_topology(void) {
  topo_info_response_msg_t* topology = NULL;
  if (_Generic(&slurm_load_topo, load_only *
               : load_the_only, load_named *
               : load_default)(slurm_load_topo, &topology) != SLURM_SUCCESS)
    return NULL;
  char* text = NULL;
  size_t size = 0;
  FILE* out = has_records(topology) ? open_memstream(&text, &size) : NULL;
  if (out) {
    _Generic(&slurm_print_topo_info_msg, print_all *
             : print_plain, print_nodes *
             : print_all_nodes, print_units *
             : print_all_units)(slurm_print_topo_info_msg, out, topology);
    fclose(out);
  }
  slurm_free_topo_info_msg(topology);
  return text ? text : strdup("");
}
