// How many files and sockets this process may have open.
#pragma once

namespace espalier::torchrt {

// Raises the soft limit to the hard one, but to a million at most. A rank holds descriptors of each of its units'
// state, gradients and copies, and a connection to many other ranks: the usual soft limit of 1,024 is too few for many
// units. The process's children inherit the limit. Does nothing where the limit cannot be read.
void allow_many_files();

}  // namespace espalier::torchrt
