#include "spank/used_grants.h"

#include <pthread.h>
#include <string.h>

#include "planner/wire/grant.h"

/* Far more than the extensions that start within ESPALIER_GRANT_SECONDS: 16,384 GPUs are some 2,048 nodes. */
#define MOST 16384
#define PROBES 64 /* of one call */

static struct use {
  char id[ESPALIER_GRANT_ID];
  int64_t expiry; /* 0: free */
  int waits;      /* used for a job that may wait */
} table[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned place_of(const char* id) { /* an id is random already */
  unsigned place = 0;
  for (int i = 0; i < ESPALIER_GRANT_ID; i++) place = place * 31 + (unsigned char)id[i];
  return place % MOST;
}

int espalier_use_grant(const char* id, int at_once, int64_t now, int64_t expiry) {
  struct use *free_one = NULL, *known = NULL;
  int result = -1;
  pthread_mutex_lock(&lock);
  for (unsigned i = 0, place = place_of(id); i < PROBES && !known; i++, place = (place + 1) % MOST) {
    if (table[place].expiry >= now && memcmp(table[place].id, id, ESPALIER_GRANT_ID) == 0) known = &table[place];
    else if (table[place].expiry < now && !free_one) free_one = &table[place];
  }
  if (known && !at_once && !known->waits) {
    known->waits = 1;
    result = 0;
  } else if (!known && free_one) {
    memcpy(free_one->id, id, ESPALIER_GRANT_ID);
    free_one->expiry = expiry;
    free_one->waits = !at_once;
    result = 0;
  }
  pthread_mutex_unlock(&lock);
  return result;
}
