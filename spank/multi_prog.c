#include "spank/multi_prog.h"

#include <stddef.h>
#include <string.h>

/* 1: "RANKS PROGRAM". 0: a comment or a blank line. -1: anything else. */
static int kind_of(const char* line, size_t length) {
  size_t start = strspn(line, " \t\r");
  if (start >= length || line[start] == '#') return 0;
  size_t end = start + strspn(line + start, "0123456789,-*");
  size_t program = end + strspn(line + end, " \t");
  return end > start && program > end && program < length ? 1 : -1;
}

int espalier_is_multi_prog(const char* argument) {
  int found = 0;
  while (argument && *argument) {
    const char* end = strchr(argument, '\n');
    if (!end) return 0; /* without a final newline it is an ordinary argument */
    int kind = kind_of(argument, (size_t)(end - argument));
    if (kind < 0) return 0;
    found |= kind;
    argument = end + 1;
  }
  return found;
}
