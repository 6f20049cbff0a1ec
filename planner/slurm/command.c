#define _POSIX_C_SOURCE 200809L /* open_memstream, popen */
#include "planner/slurm/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

char* espalier_slurm_command(const char* line, int* exit_code) {
  FILE* from = popen(line, "r");
  char *text = NULL, part[4096];
  size_t size = 0;
  if (!from) return NULL;
  FILE* to = open_memstream(&text, &size);
  for (size_t n; to && (n = fread(part, 1, sizeof(part), from)) > 0;) fwrite(part, 1, n, to);
  if (to) fclose(to);
  const int status = pclose(from);
  /* timeout(1) ends with 124 when the time is up, with 125 when it fails itself, and as a shell where there is no
   * program. */
  const int ran = WIFEXITED(status) && (WEXITSTATUS(status) < 124 || WEXITSTATUS(status) > 127);
  if (ran && exit_code) *exit_code = WEXITSTATUS(status);
  if (text && ran) return text;
  errno = text ? ENOENT : ENOMEM;
  free(text);
  return NULL;
}

char* espalier_slurm_job_text(uint32_t job) {
  char line[512];
  const int length = snprintf(line, sizeof(line),
                              "exec timeout -k 5 10 " ESPALIER_SLURM_BIN "/scontrol -o show job %u 2>/dev/null", job);
  errno = ENOENT;
  return length > 0 && (size_t)length < sizeof(line) ? espalier_slurm_command(line, NULL) : NULL;
}
