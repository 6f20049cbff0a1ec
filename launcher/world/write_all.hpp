// Writes what ranks have written.
#pragma once

#include <string>

namespace espalier::launcher {

// Returns when all is written, or when nobody reads any more. Whoever shares the descriptor may have made it
// non-blocking: then this waits for its reader all the same. Blocks for as long as the reader stands still.
void write_all(int descriptor, const std::string& bytes);

}  // namespace espalier::launcher
