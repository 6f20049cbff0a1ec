// The PMIx server library, as one process's server for the ranks that the process starts. PMIx is how an MPI library
// learns its rank and how it finds the other ranks. This header hides pmix_server.h and PMIx's own threads.
//
// Use: register a namespace with add(), start each rank with environment(), answer the fences and questions that the
// callbacks bring with answer(), and remove() the namespace when its ranks have ended.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// The ranks of one generation, by server.
struct PmixNamespace {
  struct Place {
    std::string server;      // NODE.JOB; stands for the name of a node
    std::vector<int> ranks;  // ascending
  };
  std::string name;
  std::vector<Place> places;
  std::size_t here = 0;   // which of them is this process
  std::string directory;  // scratch files of PMIx and MPI; exists
  // What the ranks call their user and group when they introduce themselves: in a container it may be root.
  uid_t user = ::getuid();
  gid_t group = ::getgid();

  int size() const;
  // Ascending: those of this process, and of the servers that other Slurm jobs of the training have on this node.
  std::vector<int> ranks_of_this_node() const;
  // Whether all ranks are of one Slurm job.
  bool of_one_job() const;
};

// Whether PMIx must name the ranks of other rank servers of a node as peers there. Open MPI 6 makes no TCP connection
// to an address that its own node has, but to peers of its node (its pull request 14371). It comes with PMIx 6 or
// later; where this program was compiled with an older one it is taken for Open MPI 4.1 or 5, which need no such thing.
bool peers_by_node();

// There may be one in a process. Its callbacks run on the loop; all its functions are called from the loop's thread.
class PmixServer {
 public:
  struct Callbacks {
    // All local ranks have entered a fence with `data`. answer() it when all servers' ranks have.
    std::function<void(const std::string& name, std::int64_t ticket, std::string data)> fence;
    // A local rank wants what `rank`, of another server, has published. answer() it.
    std::function<void(const std::string& name, int rank, std::int64_t ticket)> wanted;
    std::function<void(const std::string&name, int rank)> connected, finalized;
    std::function<void(const std::string& name, int rank, int code)> aborted;  // MPI_Abort
  };
  // `server`: this server's name. `directory`: for its rendezvous files; exists and is the user's alone. Throws Error.
  PmixServer(wire::Loop& loop, const std::string& server, const std::string& directory, Callbacks callbacks);
  ~PmixServer();
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  void add(const PmixNamespace& space);  // throws Error
  void remove(const std::string& name);
  void flush();  // runs the callbacks of what PMIx has said up to now
  // What a rank must have in its environment ("NAME=value") so that its MPI finds this server. Throws Error.
  std::vector<std::string> environment(const std::string& name, int rank) const;

  // To fence() or wanted(). `complete` false: a server or rank is gone, and the call fails in the ranks.
  void answer(std::int64_t ticket, bool complete, std::string data);
  // What the local `rank` has published; `found` runs on the loop, also later when the rank has not published yet.
  void look_up(const std::string& name, int rank, std::function<void(bool known, std::string data)> found);

 private:
  struct Bridge;  // between PMIx's threads and the loop
  std::shared_ptr<Bridge> bridge_;
  wire::Watch readable_;
};

}  // namespace espalier::launcher
