#include "spank/site.h"

#include <stdlib.h>
#include <string.h>

#include "planner/wire/event.h"
#include "spank/slurm_versions.h"

#ifndef ESPALIER_PREFIX
#define ESPALIER_PREFIX "/usr/local"
#endif
#define STRING_OF(number) #number
#define STRING(number) STRING_OF(number)

static struct espalier_site site;

const struct espalier_site* espalier_site(void) { return &site; }

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. A bare IPv6 address has more than one colon and
 * no port. */
static int read_planner(const char* value) {
  const char *host = value, *end = value + strlen(value), *port = NULL;
  if (*value == '[') {
    host = value + 1;
    end = strchr(host, ']');
    if (!end) return -1;
    if (end[1] == ':') port = end + 2;
    else if (end[1]) return -1;
  } else if (strchr(value, ':') && strchr(value, ':') == strrchr(value, ':')) {
    end = strchr(value, ':');
    port = end + 1;
  }
  size_t length = (size_t)(end - host);
  if (length == 0 || length >= sizeof(site.planner_host)) return -1;
  if (port && (!*port || strlen(port) >= sizeof(site.planner_port) || strspn(port, "0123456789") != strlen(port)))
    return -1;
  memcpy(site.planner_host, host, length);
  site.planner_host[length] = '\0';
  if (port) memcpy(site.planner_port, port, strlen(port) + 1);
  return 0;
}

static int read_max(const char* value) {
  char* end;
  long max = strtol(value, &end, 10);
  if (end == value || *end || max < 1 || max > 1000000) return -1;
  site.max_gpus = (int)max;
  return 0;
}

static int read_path(const char* value, const char** path) {
  if (*value && *value != '/') return -1;
  *path = value;
  return 0;
}

static int read_late(const char* value) {
  if (strcmp(value, "refuse") != 0 && strcmp(value, "warn") != 0) return -1;
  site.allows_late = strcmp(value, "warn") == 0;
  return 0;
}

void espalier_site_read(int argc, char** argv) {
  site.max_gpus = 64;
  site.launcher = ESPALIER_PREFIX "/bin/espalier-launch";
  site.report = ESPALIER_PREFIX "/sbin/espalier-report";
  site.planner_user = NULL;
  site.allows_late = 0;
  site.planner_host[0] = '\0';
  memcpy(site.planner_port, STRING(ESPALIER_DEFAULT_PORT), sizeof(STRING(ESPALIER_DEFAULT_PORT)));
  for (int i = 0; i < argc; i++) {
    const char* value = strchr(argv[i], '=');
    size_t key = value ? (size_t)(value - argv[i]) : 0;
    int bad = -1;
    if (value++) {
      if (key == 3 && memcmp(argv[i], "max", key) == 0) bad = read_max(value);
      if (key == 8 && memcmp(argv[i], "launcher", key) == 0) bad = read_path(value, &site.launcher);
      if (key == 6 && memcmp(argv[i], "report", key) == 0) bad = read_path(value, &site.report);
      if (key == 7 && memcmp(argv[i], "planner", key) == 0) bad = read_planner(value);
      if (key == 12 && memcmp(argv[i], "planner_user", key) == 0) bad = 0, site.planner_user = value;
      if (key == 14 && memcmp(argv[i], "late_deadlines", key) == 0) bad = read_late(value);
    }
    if (bad)
      slurm_error(
          "espalier: plugstack.conf: \"%s\" ignored; known are max=N launcher=PATH planner=HOST[:PORT] "
          "report=PATH planner_user=NAME late_deadlines=refuse|warn",
          argv[i]);
  }
}
