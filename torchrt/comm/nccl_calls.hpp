// NCCL and CUDA streams, checked and owned. For comm/nccl_*.cpp only.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>

#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

// A communicator that never blocks the host. A call may return before it has taken effect; settle()
// waits for the effect.
class NcclCommunicator {
 public:
  // Every rank of 0..ranks-1 calls it with the same `id`.
  static std::shared_ptr<NcclCommunicator> start(const ncclUniqueId& id, int rank, int ranks);
  // Collective over this communicator. `color` < 0: this rank joins no new communicator and gets
  // null.
  std::shared_ptr<NcclCommunicator> split(int color, int key);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ncclComm_t get() const { return comm_; }
  // Sleeps while NCCL is at work on the call. Throws Error when `code` is an error or the call ends
  // in one.
  void settle(ncclResult_t code, const char* what);
  // Throws Error when an operation has failed since.
  void check(const char* what) const;
  void abort();

 private:
  NcclCommunicator() = default;
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
};

// A stream that does not wait for the default stream. The default stream does not wait for it
// either.
class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }
  // Work put on this stream from now on comes after all work that is on the compute stream now.
  void follow_compute();

 private:
  cudaStream_t stream_ = nullptr;
};

// Marks the end of the work put on a stream so far.
class StreamMark : public Pending {
 public:
  // poll() asks `communicator` for errors.
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
