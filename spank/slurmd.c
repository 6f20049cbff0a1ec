#include "spank/slurmd.h"

#include <stdio.h>

#include "spank/detach.h"
#include "spank/option.h"
#include "spank/site.h"

enum { kSeconds = 15 }; /* seconds; espalier-report limits itself to fewer */

void espalier_slurmd_init(spank_t spank) {
  const struct espalier_site* site = espalier_site();
  char planner[sizeof(site->planner_host) + sizeof(site->planner_port) + 4];
  espalier_option_register(spank);
  if (!site->planner_host[0] || !site->report[0]) return;
  snprintf(planner, sizeof(planner), "[%s]:%s", site->planner_host, site->planner_port);
  const char* const words[] = {
      site->report,       "topology", "--planner", planner, site->planner_user ? "--planner-user" : NULL,
      site->planner_user, NULL};
  espalier_detach_exec(words, kSeconds);
}
