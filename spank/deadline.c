#include "spank/deadline.h"

#include <stdio.h>
#include <string.h>

int espalier_deadline_check(const char* text, const struct espalier_elastic* elastic, time_t now, char* why,
                            size_t size) {
  struct tm time;
  memset(&time, 0, sizeof(time));
  if (sscanf(elastic->deadline, "%4d-%2d-%2dT%2d:%2d:%2d", &time.tm_year, &time.tm_mon, &time.tm_mday, &time.tm_hour,
             &time.tm_min, &time.tm_sec) != 6)
    return 0;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  time.tm_isdst = -1;
  const time_t deadline = mktime(&time);
  if (deadline == (time_t)-1 || deadline > now) return 0;
  espalier_elastic_refusal(text, "the deadline is over already", "give a later deadline, or leave deadline= out", why,
                           size);
  return -1;
}
