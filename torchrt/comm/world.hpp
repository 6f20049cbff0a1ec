// All ranks of a generation, on the host: who is there and what they agree on. MPI behind a narrow interface; every
// wait leaves the processor to others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace espalier::torchrt {

// MPI_COMM_WORLD between init and finalize. One thread; every member call throws Error when MPI reports one. Waits
// sleep (waits.hpp).
class World {
 public:
  World(int* argc, char*** argv);
  ~World();  // does not finalize: a process that must leave now leaves without its peers
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this node

  // Collective, in place; everyone gets the same bits.
  void sum(std::span<double> values);
  // Collective: the least of everyone's values.
  int minimum(int value);
  // Collective: what rank 0 has.
  void broadcast(std::span<char> bytes);
  // Collective: everyone gets what each rank has, by rank.
  std::vector<std::vector<char>> gather(std::span<const char> bytes);
  void barrier();
  // Collective. Exchanges a byte with the nearest ranks (in a world of up to 129, with all), so that no connection is
  // made later, in a pause.
  void connect();
  void finalize();
  [[noreturn]] void abort();  // takes every rank down with exit code 1

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0;
};

}  // namespace espalier::torchrt
