/* The site's settings: the words after the plugin's name in plugstack.conf.
 *
 *   max=N                 most GPUs of an elastic job (default 64)
 *   launcher=PATH         espalier-launch on the compute nodes
 *   planner=HOST[:PORT]   where espalierd listens; without it nothing is reported
 *   report=PATH           espalier-report on the compute nodes; empty: topologies are not reported
 *   planner_user=NAME     the user that espalierd runs as (default: root and slurm)
 *   late_deadlines=WORD   refuse: a job whose deadline is over when it is submitted is refused (the default)
 *                         warn: it is not */
#ifndef ESPALIER_SPANK_SITE_H
#define ESPALIER_SPANK_SITE_H

struct espalier_site {
  int max_gpus;
  const char* launcher; /* the strings belong to Slurm and live as long as the plugin stack */
  const char* report;
  const char* planner_user; /* NULL: not given */
  int allows_late;          /* late_deadlines=warn */
  char planner_host[256];   /* empty: no planner */
  char planner_port[6];
};

/* slurm_spank_init calls it before any other callback, and the epilog calls it again. A wrong
 * word is logged and its setting keeps the default: a typing error must not cost a job. */
void espalier_site_read(int argc, char** argv);
const struct espalier_site* espalier_site(void);

#endif
