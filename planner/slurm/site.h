/* slurmctld's configuration, its nodes' use and its topology. Any thread. */
#ifndef ESPALIER_SLURM_SITE_H
#define ESPALIER_SLURM_SITE_H

#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Frees what slurm_load_ctl_conf answered; NULL is allowed. */
void espalier_slurm_free_conf(slurm_conf_t* conf);

/* Seconds for which a job runs before Slurm may preempt it (PreemptExemptTime); 0: none. A QOS may have its own. */
uint32_t espalier_slurm_exempt_seconds(const slurm_conf_t* conf);

/* What jobs have of a node. */
struct espalier_node_use {
  uint16_t cpus;
  uint64_t memory_mb;
};
struct espalier_node_use espalier_slurm_node_use(const node_info_t* node);

/* The cluster's topology, whatever plugin and file describe it, as `scontrol show topology` prints it. The text is
 * empty where the plugin knows no switches and no blocks, and from 23.11 on also where slurmctld does not answer. Where
 * a site has several topologies it is the default one. Returns NULL with errno: ENOENT when scontrol cannot be run,
 * which reads the topology from 23.11 on. The caller frees the text with free(). May block for MessageTimeout. */
char* espalier_slurm_topology(void);

#ifdef __cplusplus
}
#endif

#endif
