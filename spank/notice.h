/* One non-blocking datagram to the planner beside slurmctld: no answer, no log, no lock. */
#ifndef ESPALIER_SPANK_NOTICE_H
#define ESPALIER_SPANK_NOTICE_H

/* Called once before, and once after, all others. */
void espalier_notice_open(void);
void espalier_notice_close(void);

/* "job_submitted" of planner/wire/event.h. Never blocks; what a full queue or an absent planner loses, the planner
 * learns by polling. Any thread. */
void espalier_notice_job_submitted(unsigned uid, long gpus, long nodes, int elastic);

#endif
