/* Notices of the "next version" (upgrade.mk) have one key more. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static ssize_t send_with_more(int fd, const void* event, size_t length, int flags, const struct sockaddr* to,
                              socklen_t size) {
  char more[256];
  int n = snprintf(more, sizeof(more), "%.*s of_the_next_version=red", (int)length, (const char*)event);
  return sendto(fd, more, (size_t)n, flags, to, size);
}

#define sendto send_with_more
#include "spank/notice.c"
