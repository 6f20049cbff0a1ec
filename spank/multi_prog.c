#include "spank/multi_prog.h"

#include <string.h>

int espalier_is_multi_prog(const char* program) {
  const char* line = program;
  while (line && *line) {
    line += strspn(line, " \t\n");
    if (*line == '#') {
      line = strchr(line, '\n');
      continue;
    }
    size_t ranks = strspn(line, "0123456789,-*");
    return ranks > 0 && (line[ranks] == ' ' || line[ranks] == '\t');
  }
  return 0;
}
