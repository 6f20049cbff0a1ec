/* Remembers which grants were used, until they expire. In memory only: the plugin refuses grants that were made before
 * it was loaded. Safe in any thread; a call holds a lock for well under a microsecond. */
#ifndef ESPALIER_SPANK_USED_GRANTS_H
#define ESPALIER_SPANK_USED_GRANTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A launcher first tries to start an extension at once. Slurm makes no job of it when that fails, and the launcher then
 * submits the same extension to wait. So a grant is good for one of each, in this order. Two jobs of one grant that
 * both exist are noticed by espalierd, which ends the second (planner/daemon/strays.hpp).
 *
 * Returns 0 and notes the use. Returns -1 when the grant was used so already, or too many unexpired ones are known.
 * `id`: as in the grant. `now`, `expiry`: seconds since the epoch. */
int espalier_use_grant(const char* id, int at_once, int64_t now, int64_t expiry);

#ifdef __cplusplus
}
#endif

#endif
