/* Sends one non-blocking datagram to the planner on slurmctld's node. It takes no answer, writes
 * no log and holds no lock. */
#ifndef ESPALIER_SPANK_NOTICE_H
#define ESPALIER_SPANK_NOTICE_H

/* Call open once before all other calls, and close once after them. */
void espalier_notice_open(void);
void espalier_notice_close(void);

/* Sends "job_submitted" of planner/wire/event.h. Never blocks. A full queue or an absent planner
 * loses the event; the planner then learns of the job by polling. Safe in any thread. */
void espalier_notice_job_submitted(unsigned uid, long gpus, long nodes, int elastic);

#endif
