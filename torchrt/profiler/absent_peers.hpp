// A tensor-parallel group of which only this rank is there. Its sums return at once and change nothing; it counts them.
#pragma once

#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/stage_profile.hpp"
#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

// For one thread.
class AbsentPeers : public Group {
 public:
  explicit AbsentPeers(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void sum(Buffer buffer) override {
    ++counted_.count;
    counted_.bytes += static_cast<double>(buffer.bytes());
  }
  void max(Buffer buffer) override { sum(buffer); }  // costs as much
  // Tensor parallelism does none of these.
  std::unique_ptr<Pending> start_sum(Buffer) override { no_peers(); }
  std::unique_ptr<Pending> start_reduce_scatter(Buffer, std::span<const Range>) override { no_peers(); }
  std::unique_ptr<Pending> start_gather(Buffer, std::span<const Range>) override { no_peers(); }
  void abort() override {}

  // The sums since the last call.
  AbsentSums take() { return std::exchange(counted_, {}); }

 private:
  [[noreturn]] static void no_peers() { throw Error("profile: a sum among replicas in a stage without peers"); }
  int size_;
  AbsentSums counted_;
};

}  // namespace espalier::torchrt
