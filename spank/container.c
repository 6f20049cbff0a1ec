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

const char* espalier_container_of_command(int* elastic) {
  static char text[1 << 16];
  char* words[kMostArguments + 1];
  const char* oci = getenv("SLURM_CONTAINER");
  size_t size = 0;
  int count = 0;
  FILE* file = fopen("/proc/self/cmdline", "re");
  if (file) {
    size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
  }
  text[size] = '\0';
  for (size_t at = 0; at < size && count < kMostArguments; at += strlen(text + at) + 1) words[count++] = text + at;
  words[count] = NULL;
  const char* option = espalier_container_option(words, elastic);
  return option ? option : oci && *oci ? "--container" : NULL;
}

unsigned long espalier_mount_namespace(void) {
  struct stat facts;
  return stat("/proc/self/ns/mnt", &facts) == 0 ? (unsigned long)facts.st_ino : 0;
}
