/* Sends events of planner/wire/event.h to the planner. */
#ifndef ESPALIER_SPANK_EVENT_DATAGRAM_H
#define ESPALIER_SPANK_EVENT_DATAGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Sends one UDP datagram, a MUNGE credential around `event`. Returns 0. Returns -1 and errno
 * when it was not sent. Blocks while it asks for the host's name and munged, so call it under an
 * alarm(). */
int espalier_send_sealed(const char* host, const char* port, const char* event);

#ifdef __cplusplus
}
#endif

#endif
