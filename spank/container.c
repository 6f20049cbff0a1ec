#include "spank/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
                                      "--stepmgr",
                                      "--external-launcher",
                                      "--interactive",
                                      "--no-allocate",
                                      "--compress",
                                      "--oom-kill-step",
                                      "--debugger-test",
                                      "--consolidate-segments",
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

/* --container-id is Slurm's own. */
static int is_of_pyxis(const char* word) {
  return (strncmp(word, "--container-", 12) == 0 && !is(word, "--container-id")) ||
         strncmp(word, "--no-container-", 15) == 0;
}

/* Whether `option` has its value in `next`. An option that is not known here, e.g. of another plugin, has none where
 * one of pyxis's follows. */
static int has_value(const char* option, const char* next) {
  if (stands_alone(option) || !next) return 0;
  return !is_of_pyxis(next) || is_of_pyxis(option) || option[1] != '-' || strcmp(option, "--comment") == 0;
}

const char* espalier_container_option(char* const* arguments, int* elastic) {
  static const char* const options[] = {"--container-image", "--container-name", "--container", NULL};
  const char* found = NULL;
  *elastic = 0;
  if (!*arguments) return NULL;
  for (char* const* at = arguments + 1; *at; at++) {
    const char* word = *at;
    if (word[0] != '-' || word[1] == '\0' || strcmp(word, "--") == 0) break;
    for (const char* const* option = options; *option; option++)
      if (is(word, *option)) found = *option;
    if (is(word, "--elastic")) *elastic = 1;
    if (has_value(word, at[1])) at++;
  }
  return found;
}

size_t espalier_container_options_end(char* const* arguments) {
  size_t at = *arguments ? 1 : 0;
  while (arguments[at] && arguments[at][0] == '-' && arguments[at][1] != '\0' && strcmp(arguments[at], "--") != 0)
    at += has_value(arguments[at], arguments[at + 1]) ? 2 : 1;
  return at;
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
    char* value = has_value(word, at[1]) ? at[1] : NULL;
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

char** espalier_container_arguments(size_t* count) {
  size_t size = 0, room = 1 << 16, words = 0;
  char* text = malloc(room);
  FILE* file = fopen("/proc/self/cmdline", "re");
  while (file && text) { /* its size is not known before it has been read */
    size += fread(text + size, 1, room - 1 - size, file);
    if (size < room - 1) break;
    char* more = realloc(text, room *= 2);
    if (!more) free(text);
    text = more;
  }
  if (file) fclose(file);
  if (!text || size == 0) return NULL;
  text[size] = '\0';
  for (size_t at = 0; at < size; at += strlen(text + at) + 1) words++;
  char** list = calloc(words + 1, sizeof(*list));
  if (!list) return NULL;
  *count = 0;
  for (size_t at = 0; at < size; at += strlen(text + at) + 1) list[(*count)++] = text + at;
  return list;
}

const char* espalier_container_of_command(int* elastic) {
  /* pyxis's own variables, and those by which salloc and sbatch hand its options on. */
  static const char* const images[] = {"PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME",
                                       "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image",
                                       "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_name"};
  static char* none[] = {NULL};
  const char* oci = getenv("SLURM_CONTAINER");
  size_t count = 0;
  char** words = espalier_container_arguments(&count);
  const char* option = espalier_container_option(words ? words : none, elastic);
  for (size_t i = 0; !option && i < sizeof(images) / sizeof(images[0]); i++) {
    const char* image = getenv(images[i]);
    if (image && *image) option = "--container-image";
  }
  return option ? option : oci && *oci ? "--container" : NULL;
}

unsigned long espalier_mount_namespace(void) {
  struct stat facts;
  return stat("/proc/self/ns/mnt", &facts) == 0 ? (unsigned long)facts.st_ino : 0;
}
