/* Whether the deadline of --elastic can still be met when a job is submitted. */
#ifndef ESPALIER_SPANK_DEADLINE_H
#define ESPALIER_SPANK_DEADLINE_H

#include <stddef.h>
#include <time.h>

#include "spank/elastic_option.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0, also without a deadline. Returns -1 and `why` (`size` bytes) when the deadline is over at `now`. The
 * deadline is a local time of this process's time zone. */
int espalier_deadline_check(const char* text, const struct espalier_elastic* elastic, time_t now, char* why,
                            size_t size);

#ifdef __cplusplus
}
#endif

#endif
