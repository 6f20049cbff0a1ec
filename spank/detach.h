/* Children that a Slurm daemon starts and forgets. init reaps them. They run in a session of
 * their own, without the daemon's descriptors. SIGALRM ends them after a time limit. */
#ifndef ESPALIER_SPANK_DETACH_H
#define ESPALIER_SPANK_DETACH_H

#include <sys/types.h>

/* 1 in the child, which must end with _exit. 0 in the caller, at once. -1 when no process could
 * be made. `seconds`: the child's time limit. */
int espalier_detach(unsigned seconds);

/* Runs words[0]. A relative name is looked up beside Slurm's commands, then in /usr/bin and
 * /usr/local/bin. Safe in a process with threads. */
void espalier_detach_exec(const char* const* words, unsigned seconds);

/* The same again and again, each time for at most `seconds`, until it succeeds or `all_seconds` are
 * over: for a command to a slurmctld that may be away. One that fails within three seconds was
 * heard and refused, and is repeated twice only. */
void espalier_detach_exec_until_heard(const char* const* words, unsigned seconds, unsigned all_seconds);

/* The same as user `uid`, in none of the user's groups. */
void espalier_detach_exec_as(uid_t uid, const char* const* words, unsigned seconds);

#endif
