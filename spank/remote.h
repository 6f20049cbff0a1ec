/* slurmstepd turns the tasks of an elastic step into the launcher and its keepers.
 *
 * Contract with espalier-launch. Global task 0 of an elastic step is the launcher. Every other
 * task is a keeper.
 *   From Slurm 23.11  argv = {LAUNCHER, "run" | "keeper", "--", PROGRAM, ARGUMENT...}
 *   Before 23.11      argv = {LAUNCHER, ARGUMENT...}, because argv[0] can be exchanged but argv
 *                     cannot be lengthened. The environment then has
 *                     ESPALIER_TASK=run|keeper and ESPALIER_PROGRAM=PROGRAM.
 * PROGRAM is as the user typed it. The launcher looks up a PROGRAM without a slash in PATH.
 * Before it starts anything, it removes ESPALIER_TASK and ESPALIER_PROGRAM from its environment.
 * These variables are always set or removed, whatever values the user gave them:
 *   ESPALIER_MIN=N        0: as many GPUs as the job was given
 *   ESPALIER_MAX=N        never above the site's limit
 *   ESPALIER_ACCURACY=bitwise|relaxed, removed where the option does not say
 *   ESPALIER_DEADLINE=YYYY-MM-DDTHH:MM:SS in local time, or empty
 *   ESPALIER_PYXIS        options of pyxis, a line each; removed where there are none (pyxis.h)
 *   ESPALIER_ACTIVE=JOB   steps that this task starts in the same job stay as they are
 * The user can change the environment, so the launcher checks these values like any other input.
 * When task 0 has ended, the step's other tasks get SIGHUP. (SIGTERM would print "CANCELLED" at
 * every job's end.) */
#ifndef ESPALIER_SPANK_REMOTE_H
#define ESPALIER_SPANK_REMOTE_H

#include "spank/slurm_versions.h"

void espalier_remote_init(spank_t spank);
void espalier_remote_post_opt(spank_t spank);  /* in slurmstepd, once */
void espalier_remote_task_init(spank_t spank); /* in each task, as the user, just before exec */
void espalier_remote_task_exit(spank_t spank); /* in slurmstepd, for each task */

#endif
