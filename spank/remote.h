/* slurmstepd: an elastic step's tasks become the launcher and its keepers.
 *
 * Contract with espalier-launch. Global task 0 of an elastic step is the launcher, every other task a keeper.
 *   From Slurm 23.11  argv = {LAUNCHER, "run" | "keeper", "--", PROGRAM, ARGUMENT...}
 *   Before            argv = {LAUNCHER, ARGUMENT...}, because it can be exchanged in place but not lengthened, and in
 *                     the environment ESPALIER_TASK=run|keeper and ESPALIER_PROGRAM=PROGRAM
 * PROGRAM is as the user typed it: the launcher looks up in PATH what has no slash. It removes ESPALIER_TASK and
 * ESPALIER_PROGRAM from its environment before it starts anything. Always set, whatever the user had there:
 *   ESPALIER_MIN=N        0: as many GPUs as the job was given
 *   ESPALIER_MAX=N        never above the site's limit
 *   ESPALIER_ACCURACY=bitwise|relaxed
 *   ESPALIER_DEADLINE=YYYY-MM-DDTHH:MM:SS in local time, or empty
 *   ESPALIER_ACTIVE=JOB   whatever this task starts in the same job is not exchanged again
 * The environment is the user's own: the launcher checks these values as any other input.
 * When task 0 has ended, the step's other tasks get SIGHUP (SIGTERM would print "CANCELLED" at every job's end). */
#ifndef ESPALIER_SPANK_REMOTE_H
#define ESPALIER_SPANK_REMOTE_H

#include "spank/slurm_versions.h"

void espalier_remote_init(spank_t spank);
void espalier_remote_post_opt(spank_t spank);  /* in slurmstepd, once */
void espalier_remote_task_init(spank_t spank); /* in each task, as the user, just before exec */
void espalier_remote_task_exit(spank_t spank); /* in slurmstepd, for each task */

#endif
