// All ranks of a generation: their numbers and their agreements, on the host. A narrow interface
// over MPI. Every wait leaves the processor to others.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace espalier::torchrt {

// MPI_COMM_WORLD between init and finalize. For one thread. Every method throws Error when MPI
// reports one. Waits sleep (waits.hpp).
class World {
 public:
  World(int* argc, char*** argv);
  ~World();  // does not finalize: a process that must leave now does not wait for its peers
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this node

  // Collective, in place. Every rank gets the same bits.
  void sum(std::span<double> values);
  // Collective: the least of all ranks' values.
  int minimum(int value);
  // Collective: every rank gets rank 0's bytes.
  void broadcast(std::span<char> bytes);
  // Collective: every rank gets all ranks' bytes, by rank. More than `most` bytes of all ranks
  // together go in several rounds, because MPI counts them in an int.
  std::vector<std::vector<char>> gather(std::span<const char> bytes, std::int64_t most = INT_MAX);
  void barrier();
  // Collective. Exchanges a byte with the nearest ranks, so that no connection is made later, in a
  // pause. In a world of up to 129 ranks these are all ranks.
  void connect();
  void finalize();
  [[noreturn]] void abort();  // takes every rank down with exit code 1

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0;
};

}  // namespace espalier::torchrt
