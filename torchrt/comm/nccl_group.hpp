// A group over NCCL. For comm/nccl_*.cpp only.
#pragma once

#include "torchrt/comm/nccl_calls.hpp"
#include "torchrt/comm/nccl_fabric.hpp"

namespace espalier::torchrt {

// sum() and max() run on the compute stream, because its next operation needs their result.
// Operations begun by start_...() run on a stream of their own.
class NcclGroup : public Group {
 public:
  NcclGroup(std::shared_ptr<NcclCommunicator> communicator, int rank, int size, OrderedSum ordered_sum);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void sum(Buffer buffer) override;
  void max(Buffer buffer) override;
  std::unique_ptr<Pending> start_sum(Buffer buffer) override;
  std::unique_ptr<Pending> start_reduce_scatter(Buffer all, std::span<const Range> parts) override;
  std::unique_ptr<Pending> start_gather(Buffer all, std::span<const Range> parts) override;
  void abort() override { communicator_->abort(); }

 private:
  std::unique_ptr<Pending> mark() { return std::make_unique<StreamMark>(stream_.get(), communicator_); }

  std::shared_ptr<NcclCommunicator> communicator_;
  int rank_, size_;
  OrderedSum ordered_sum_;
  CudaStream stream_;
  void* received_ = nullptr;  // buffer of sum(), kept from call to call
  std::size_t received_bytes_ = 0;
};

}  // namespace espalier::torchrt
