/* Children that a Slurm daemon starts and forgets: reaped by init, in a session of their own, without any of the
 * daemon's descriptors, and killed by SIGALRM when late. */
#ifndef ESPALIER_SPANK_DETACH_H
#define ESPALIER_SPANK_DETACH_H

#include <sys/types.h>

/* 1 in the child, which must end with _exit; 0 in the caller, at once; -1 when there is no process to be had. */
int espalier_detach(unsigned seconds);

/* Runs words[0], looked up where Slurm's own commands are when it is not a path. Safe in a process with threads. */
void espalier_detach_exec(const char* const* words, unsigned seconds);

/* The same as a user, in no group of theirs. */
void espalier_detach_exec_as(uid_t uid, const char* const* words, unsigned seconds);

#endif
