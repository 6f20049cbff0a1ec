// Groups over MPI, on host memory. For comm/*.cpp and tests.
#pragma once

#include <mpi.h>

#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/comm/mpi_ring.hpp"

namespace espalier::torchrt {

class MpiGroup : public Group {
 public:
  // Collective over `members` (ranks of MPI_COMM_WORLD, ascending). `most`: the most elements in
  // one MPI call.
  explicit MpiGroup(const std::vector<int>& members, std::size_t most = std::size_t{1} << 30);
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void sum(Buffer buffer) override;
  void max(Buffer buffer) override;
  std::unique_ptr<Pending> start_sum(Buffer buffer) override;
  std::unique_ptr<Pending> start_reduce_scatter(Buffer all, std::span<const Range> parts) override;
  std::unique_ptr<Pending> start_gather(Buffer all, std::span<const Range> parts) override;
  void abort() override { *aborted_ = true; }

 private:
  void combine(Buffer buffer, bool maximum);
  // Whether a ring moves `all` sooner than a tree: its parts are long enough that their bytes count for more than the
  // number of its steps.
  bool by_ring(const Buffer& all, std::span<const Range> parts) const;
  std::unique_ptr<Pending> start_rings(const Buffer& all, std::span<const Range> parts, MpiRing::Steps steps,
                                       const char* what);
  int next_ring_tag();

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  int rings_ = 0;  // begun so far, modulo the number of their tags
  std::size_t most_;
  std::vector<char> received_;  // buffer of combine(), kept from call to call
  std::shared_ptr<bool> aborted_ = std::make_shared<bool>(false);
};

}  // namespace espalier::torchrt
