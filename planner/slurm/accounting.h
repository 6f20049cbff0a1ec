/* QOS and accounts as slurmctld itself holds them: what it decides by, also while slurmdbd is away. Any thread. */
#ifndef ESPALIER_SLURM_ACCOUNTING_H
#define ESPALIER_SLURM_ACCOUNTING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct espalier_qos {
  const char* name;
  const char* preempts;  /* names of the QOS whose jobs its jobs may preempt, each with a comma behind it */
  uint16_t preempt_mode; /* PREEMPT_MODE_ flags; 0: the cluster's */
  uint32_t grace_seconds;
  double usage_factor;
  /* Whether it has limits of CPUs, memory, GPUs, nodes, their minutes, or jobs, that all its jobs share, those of each
   * user, and those of each account. */
  int group_limits, user_limits, account_limits;
  int64_t exempt_seconds; /* PreemptExemptTime; -1: it has none of its own */
};

/* Calls `each` for every QOS; its texts are valid during the call. Without accounting there is none. Returns
 * SLURM_SUCCESS, or SLURM_ERROR with errno. May block for MessageTimeout. */
int espalier_slurm_each_qos(void (*each)(void* context, const struct espalier_qos* qos), void* context);

struct espalier_account {
  const char *name, *parent; /* parent: NULL or empty for the root */
  const char* user;          /* NULL or empty: of the account as a whole */
  int limited;               /* GrpTRES or GrpJobs is set */
};

/* The same for associations. slurmctld sends all that it has: a site with ten thousand of them sends some megabytes. */
int espalier_slurm_each_account(void (*each)(void* context, const struct espalier_account* account), void* context);

/* Accounts, users and fair shares, as `sshare -a -n -P -o account,user,fairshare` prints them: libslurm tells them to
 * nobody. The text is empty where the site has no accounting. NULL with errno: when sshare cannot be run, does not end
 * within 10 s (ENOENT), or fails, as it does when slurmctld does not answer (EIO). The caller frees the text with
 * free(). */
char* espalier_slurm_shares(void);

#ifdef __cplusplus
}
#endif

#endif
