/* Events of planner/wire/event.h on their way to the planner. */
#ifndef ESPALIER_SPANK_EVENT_DATAGRAM_H
#define ESPALIER_SPANK_EVENT_DATAGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* One UDP datagram that is a MUNGE credential around `event`. 0, or -1 with errno for what did not go out. Blocks for
 * the host's name and munged: call it where an alarm() bounds it. */
int espalier_send_sealed(const char* host, const char* port, const char* event);

#ifdef __cplusplus
}
#endif

#endif
