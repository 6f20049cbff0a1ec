/* Events of the "next version" (upgrade.mk) have one key more. */
#include <munge.h>
#include <stdio.h>
#include <string.h>

static munge_err_t encode_more(char** credential, munge_ctx_t context, const void* event, int length) {
  char more[1024];
  int n = snprintf(more, sizeof(more), "%.*s of_the_next_version=red", length, (const char*)event);
  return munge_encode(credential, context, more, n);
}

#define munge_encode encode_more
#include "spank/event_datagram.c"
