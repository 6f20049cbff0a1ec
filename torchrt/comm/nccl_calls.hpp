// NCCL and CUDA streams, checked and owned. For comm/nccl_*.cpp only.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>

#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

// A communicator that never blocks the host: calls may return before they have taken effect, settle() waits for that.
class NcclCommunicator {
 public:
  // Starts; every rank of 0..ranks-1 does so with the same `id`.
  static std::shared_ptr<NcclCommunicator> start(const ncclUniqueId& id, int rank, int ranks);
  // Collective over this communicator. `color` < 0: this rank belongs to none, the result is null.
  std::shared_ptr<NcclCommunicator> split(int color, int key);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ncclComm_t get() const { return comm_; }
  // Throws Error when `code` or what follows of the call is one; sleeps while NCCL is still at it.
  void settle(ncclResult_t code, const char* what);
  // Throws Error when something went wrong since.
  void check(const char* what) const;
  void abort();

 private:
  NcclCommunicator() = default;
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
};

// Does not wait for the default stream, nor it for this one.
class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }
  // What is put on it from now on comes after all that is on the compute stream.
  void follow_compute();

 private:
  cudaStream_t stream_ = nullptr;
};

// The end of what has been put on a stream so far.
class StreamMark : public Pending {
 public:
  // `communicator` is asked for errors while somebody polls.
  StreamMark(cudaStream_t stream, std::shared_ptr<NcclCommunicator> communicator);
  ~StreamMark() override;
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  void wait() override;  // the compute stream waits
  bool poll() override;
  void wait_on_host();
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
  std::shared_ptr<NcclCommunicator> communicator_;
};

// The stream on which the model computes: CUDA's default one.
constexpr cudaStream_t kComputeStream = nullptr;

ncclDataType_t nccl_type(DataType type);

}  // namespace espalier::torchrt
