// What an MPI library is told in the environment of a rank, beside what PMIx says. The only place that names settings
// of an MPI library.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

struct RankPosition {
  int rank = 0, size = 0, local_rank = 0, local_size = 0;
};

// Whether PMIx must name the ranks of other rank servers of a node as peers there. Open MPI 6 makes no TCP connection
// to an address that its own node has, but to peers of its node (its pull request 14371). It comes with PMIx 6 or
// later; where this program was compiled with an older one it is taken for Open MPI 4.1 or 5, which need no such thing.
bool peers_by_node();

// "NAME=value" for Open MPI 4.1, 5 and 6. `directory`: for shared memory, of this node and generation alone. `network`:
// the CIDR that TCP connections use; empty: any. `tcp_alone`: with peers_by_node(), on a node with several rank
// servers: their ranks cannot reach each other by shared memory, whose names a server tells only its own ranks.
std::vector<std::string> mpi_environment(const RankPosition& position, const std::string& directory,
                                         const std::string& network, bool tcp_alone);

}  // namespace espalier::launcher
