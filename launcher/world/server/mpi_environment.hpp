// What an MPI library is told in the environment of a rank, beside what PMIx says. The only place that names settings
// of an MPI library.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

struct RankPosition {
  int rank = 0, size = 0, local_rank = 0, local_size = 0;
};

// "NAME=value" for Open MPI 4.1, 5 and 6. `directory`: for shared memory, of this node and generation alone. `network`:
// the CIDR that TCP connections use; empty: any. `tcp_alone`: with peers_by_node(), on a node with several rank
// servers: their ranks cannot reach each other by shared memory, whose names a server tells only its own ranks.
std::vector<std::string> mpi_environment(const RankPosition& position, const std::string& directory,
                                         const std::string& network, bool tcp_alone);

// In the same form, what a user's own environment may say otherwise: lengths of messages that are sent at once.
std::vector<std::string> mpi_defaults();

}  // namespace espalier::launcher
