#include "spank/notice.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "planner/wire/event.h"

static int notice_fd = -1;

void espalier_notice_open(void) {
  if (notice_fd < 0) notice_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void espalier_notice_close(void) {
  if (notice_fd >= 0) close(notice_fd);
  notice_fd = -1;
}

/* The socket is not connected. Each datagram looks up the planner again, since the planner may
 * restart. */
void espalier_notice_job_submitted(unsigned uid, long gpus, long nodes, int elastic) {
  static const struct sockaddr_un planner = {.sun_family = AF_UNIX, .sun_path = ESPALIER_RUN_DIR "/events.sock"};
  char event[128];
  int n = snprintf(event, sizeof(event), ESPALIER_EVENT_MAGIC " job_submitted uid=%u gpus=%ld nodes=%ld elastic=%d",
                   uid, gpus, nodes, elastic != 0);
  if (n <= 0 || (size_t)n >= sizeof(event) || notice_fd < 0) return;
  (void)!sendto(notice_fd, event, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr*)&planner,
                sizeof(planner));
}
