/* slurmctld's configuration as text. Any thread. */
#ifndef ESPALIER_SLURM_SETTINGS_H
#define ESPALIER_SLURM_SETTINGS_H

#include <slurm/slurm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The settings of `conf`, one "Name = value" a line, named and written as `scontrol show config` does. Unlike the
 * members of slurm_conf_t, these names are the same in all releases. `conf` is what slurm_load_ctl_conf answered; the
 * caller keeps owning it. Returns NULL without memory. The caller frees the text with free(). */
char* espalier_slurm_settings(slurm_conf_t* conf);

/* The same of cgroup.conf. Empty: slurmctld uses no plugin that reads that file. */
char* espalier_slurm_cgroup_settings(slurm_conf_t* conf);

#ifdef __cplusplus
}
#endif

#endif
