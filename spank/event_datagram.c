#include "spank/event_datagram.h"

#include <errno.h>
#include <munge.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int send_to(const struct addrinfo* to, const char* datagram) {
  int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  ssize_t length = (ssize_t)strlen(datagram);
  int rc = sendto(fd, datagram, (size_t)length, MSG_NOSIGNAL, to->ai_addr, to->ai_addrlen) == length ? 0 : -1;
  close(fd);
  return rc;
}

int espalier_send_sealed(const char* host, const char* port, const char* event) {
  struct addrinfo hints, *found = NULL;
  char* credential = NULL;
  int rc = -1;
  memset(&hints, 0, sizeof(hints));
  hints.ai_socktype = SOCK_DGRAM;
  if (munge_encode(&credential, NULL, event, (int)strlen(event)) != EMUNGE_SUCCESS) {
    errno = EACCES;
    return -1;
  }
  if (getaddrinfo(host, port, &hints, &found) == 0) {
    for (const struct addrinfo* to = found; to && rc != 0; to = to->ai_next) rc = send_to(to, credential);
    freeaddrinfo(found);
  } else {
    errno = EHOSTUNREACH;
  }
  free(credential);
  return rc;
}
