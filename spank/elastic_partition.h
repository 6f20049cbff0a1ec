/* Who may submit into the partition for extensions, in slurmctld: whoever has a grant of espalierd
 * (planner/wire/grant.h) for this very job, and administrators. Where there is no key, everybody. */
#ifndef ESPALIER_SPANK_ELASTIC_PARTITION_H
#define ESPALIER_SPANK_ELASTIC_PARTITION_H

#include <stddef.h>

#include "spank/slurm_versions.h"

#define ESPALIER_EXTENSION_COMMENT "espalier:ext:"

/* Reads the key, once before all other calls. A key file that cannot be used is named in slurmctld's log, and there is
 * no key then: a plugin that does not load would stop slurmctld. */
void espalier_partition_open(void);

/* Returns 0, or -1 and one message in `why`. `gpus`: what the job asks for; `exact`: whether that is known. No I/O, no
 * RPC, does not wait. */
int espalier_partition_admits(const job_desc_msg_t* job, uint32_t submit_uid, long gpus, int exact, char* why,
                              size_t size);
/* The same of a change of a job that exists. A job is not moved into the partition by its user. */
int espalier_partition_admits_change(const job_desc_msg_t* change, uint32_t submit_uid);
/* Whether a job in these partitions, "a,b" or NULL, may be an extension. Without a key it may. */
int espalier_partition_may_be(const char* partitions);

#endif
