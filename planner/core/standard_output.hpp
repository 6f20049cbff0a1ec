// The end of a program that prints its result.
#pragma once

#include <cstdio>

namespace espalier {

// To be called when all is printed: a full disk shows only when the buffer is written. Throws Error when anything was
// lost, so that the program fails and says why. `stream`: where standard output leads.
void flush_standard_output(std::FILE* stream = stdout);

}  // namespace espalier
