// MPI behind a narrow interface: host memory only, every wait leaves the processor to others.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

namespace espalier::torchrt {

// A group of ranks that sums gradients. Movable, owned by whoever split it off, gone before its World.
class Group {
 public:
  Group();
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  ~Group();
  // In place; every member gets the same bits.
  void sum(std::span<float> values);

 private:
  friend class World;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

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

  // Copies `values` and returns at once; drain() waits until all are delivered.
  void post(std::span<const float> values, int peer, int tag);
  void drain();
  void receive(std::span<float> values, int peer, int tag);
  // Large transfers in bounded chunks, straight from and to the caller's memory.
  void send_bytes(const void* data, std::size_t bytes, int peer, int tag);
  void receive_bytes(void* data, std::size_t bytes, int peer, int tag);
  // Everyone's `values` (equally many), by rank.
  std::vector<double> gather_all(const std::vector<double>& values);
  void barrier();
  // Collective: ranks with the same `color` form a group, in rank order.
  Group split(int color);
  // Exchanges a byte with every other rank, so that no connection is made later, in a pause.
  void connect_all();
  void finalize();
  [[noreturn]] void abort();  // takes every rank down with exit code 1

 private:
  struct Post;
  void reap();
  int rank_ = 0, size_ = 1, local_rank_ = 0;
  std::list<Post> posts_;
};

}  // namespace espalier::torchrt
