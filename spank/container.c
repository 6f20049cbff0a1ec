#include "spank/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { kMostArguments = 4096 };

/* srun's options without a value. Others that do not hold their value themselves ("--gres=gpu:1", "-n2") have it in the
 * next argument. */
static int stands_alone(const char* option) {
  static const char* const flags[] = {"--elastic",
                                      "--exclusive",
                                      "--overlap",
                                      "--overcommit",
                                      "--label",
                                      "--pty",
                                      "--unbuffered",
                                      "--verbose",
                                      "--quiet",
                                      "--immediate",
                                      "--hold",
                                      "--no-kill",
                                      "--contiguous",
                                      "--disable-status",
                                      "--multi-prog",
                                      "--preserve-env",
                                      "--quit-on-interrupt",
                                      "--reboot",
                                      "--oversubscribe",
                                      "--exact",
                                      "--whole",
                                      "--spread-job",
                                      "--test-only",
                                      "--use-min-nodes",
                                      "--nice",
                                      "--bcast",
                                      "--propagate",
                                      "--resv-ports",
                                      "--send-libs",
                                      "--x11",
                                      "--kill-on-bad-exit",
                                      "--container-writable",
                                      "--container-remap-root",
                                      "--no-container-remap-root",
                                      "--container-mount-home",
                                      "--no-container-mount-home",
                                      "--no-container-entrypoint",
                                      "--container-entrypoint",
                                      "--container-entrypoint-log",
                                      "--container-readonly",
                                      NULL};
  for (const char* const* flag = flags; *flag; flag++)
    if (strcmp(option, *flag) == 0) return 1;
  if (option[1] == '-') return strchr(option, '=') != NULL;
  return option[2] != '\0' || strchr("EHIKOQXZklqsuv", option[1]) != NULL; /* "-n2", "-l" */
}

static int is(const char* word, const char* option) {
  size_t size = strlen(option);
  return strncmp(word, option, size) == 0 && (word[size] == '\0' || word[size] == '=');
}

const char* espalier_container_option(char* const* arguments, int* elastic) {
  static const char* const options[] = {"--container-image", "--container-name", "--container", NULL};
  const char* found = NULL;
  int value = 0;
  *elastic = 0;
  for (char* const* at = arguments; *at && *++at;) {
    const char* word = *at;
    if (value) {
      value = 0;
      continue;
    }
    if (word[0] != '-' || word[1] == '\0' || strcmp(word, "--") == 0) break;
    for (const char* const* option = options; *option; option++)
      if (is(word, *option)) found = *option;
    if (is(word, "--elastic")) *elastic = 1;
    value = !stands_alone(word);
  }
  return found;
}

/* --container-id is Slurm's own. */
static int is_of_pyxis(const char* word) {
  return (strncmp(word, "--container-", 12) == 0 && !is(word, "--container-id")) ||
         strncmp(word, "--no-container-", 15) == 0;
}

int espalier_container_take(char* const* arguments, char** rest, char* text, size_t size) {
  int taken = 0;
  size_t used = 0;
  char* const* at = arguments;
  if (size == 0) return -1;
  text[0] = '\0';
  if (*at) *rest++ = *at++;
  for (; *at && (*at)[0] == '-' && (*at)[1] != '\0' && strcmp(*at, "--") != 0; at++) {
    char* word = *at;
    char* value = stands_alone(word) ? NULL : at[1];
    if (!is_of_pyxis(word)) {
      *rest++ = word;
      if (value) *rest++ = *++at;
      continue;
    }
    if (value) at++;
    const int length = snprintf(text + used, size - used, "%s%s%s\n", word, value ? "=" : "", value ? value : "");
    if (length < 0 || (size_t)length >= size - used || is(word, "--container-save") ||
        strchr(text + used, '\n') != text + used + length - 1)
      return -1;
    used += (size_t)length;
    taken++;
  }
  while (*at) *rest++ = *at++; /* the program's own */
  *rest = NULL;
  return taken;
}

int espalier_container_arguments(char** words, int most) {
  static char text[1 << 16];
  size_t size = 0;
  int count = 0;
  FILE* file = fopen("/proc/self/cmdline", "re");
  if (file) {
    size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
  }
  text[size] = '\0';
  for (size_t at = 0; at < size && count < most - 1; at += strlen(text + at) + 1) words[count++] = text + at;
  words[count] = NULL;
  return size == sizeof(text) - 1 || count == most - 1 ? 0 : count;
}

const char* espalier_container_of_command(int* elastic) {
  char* words[kMostArguments + 1];
  const char* oci = getenv("SLURM_CONTAINER");
  espalier_container_arguments(words, kMostArguments + 1); /* as much of a long one as there is room for */
  const char* option = espalier_container_option(words, elastic);
  return option ? option : oci && *oci ? "--container" : NULL;
}

unsigned long espalier_mount_namespace(void) {
  struct stat facts;
  return stat("/proc/self/ns/mnt", &facts) == 0 ? (unsigned long)facts.st_ino : 0;
}
