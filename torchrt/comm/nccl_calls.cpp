#include "torchrt/comm/nccl_calls.hpp"

#include <chrono>
#include <string>

#include "torchrt/comm/peer_error.hpp"
#include "torchrt/comm/waits.hpp"
#include "torchrt/device/cuda_driver.hpp"
#include "torchrt/device/memory_error.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::chrono::seconds kFinalize{10};

// A CUDA error that NCCL met may be this rank's own: its GPU is broken or full. Anything else is another rank's
// failure, as far as this one knows.
[[noreturn]] void fail(ncclResult_t code, const char* what) {
  const std::string last = ::ncclGetLastError(nullptr);
  const std::string words = std::string("NCCL: ") + what + " failed: " + ::ncclGetErrorString(code) + "; " + last;
  if (code == ncclUnhandledCudaError) {
    const cudaError_t own = ::cudaStreamQuery(kComputeStream);
    if (own != cudaSuccess && own != cudaErrorNotReady) must_run(own, what);
    // Its last warning is often not CUDA's own words but that of the caller: "Failed to CUDA calloc async 4096 bytes".
    // "Failed to CUDA host alloc" is about the host's memory, of which another generation does not give any back.
    const auto says = [&last](const char* word) { return last.find(word) != std::string::npos; };
    if (says("out of memory") || (says("Failed to CUDA") && says("alloc") && !says("host alloc")))
      throw MemoryError(words);
    throw Error(words);
  }
  throw PeerError(words);
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

std::shared_ptr<NcclCommunicator> NcclCommunicator::start(const ncclUniqueId& id, int rank, int ranks) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator);
  ncclConfig_t config = non_blocking();
  const ncclResult_t code = ::ncclCommInitRankConfig(&made->comm_, ranks, id, rank, &config);
  if (code != ncclSuccess && code != ncclInProgress) fail(code, "start");
  return made;
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::split(int color, int key) {
  settle(ncclInProgress, "start");
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator);
  ncclConfig_t config = non_blocking();
  // ncclCommSplit returns success while a thread of NCCL is still at work. That thread stores the
  // child communicator when it ends.
  const ncclResult_t code = ::ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &made->comm_, &config);
  settle(code == ncclSuccess ? ncclInProgress : code, "split");
  if (made->comm_ == nullptr) return nullptr;
  return made;
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr || aborted_) return;
  ncclResult_t state = ncclSuccess;
  if (::ncclCommGetAsyncError(comm_, &state) != ncclSuccess || state != ncclSuccess) {
    ::ncclCommAbort(comm_);
    return;
  }
  ::ncclCommFinalize(comm_);
  const auto end = std::chrono::steady_clock::now() + kFinalize;
  for (Backoff backoff; ::ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state == ncclInProgress;) {
    if (std::chrono::steady_clock::now() > end) {  // a peer is gone
      ::ncclCommAbort(comm_);
      return;
    }
    backoff.pause();
  }
  ::ncclCommDestroy(comm_);
}

void NcclCommunicator::settle(ncclResult_t code, const char* what) {
  if (aborted_) throw PeerError(std::string("NCCL: ") + what + " was aborted");
  for (Backoff backoff; code == ncclInProgress; backoff.pause()) {
    ncclResult_t state = ncclInProgress;
    const ncclResult_t asked = ::ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) fail(asked, what);
    if (state != ncclInProgress) code = state;
  }
  if (code != ncclSuccess) fail(code, what);
}

void NcclCommunicator::check(const char* what) const {
  if (aborted_) throw PeerError(std::string("NCCL: ") + what + " was aborted");
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ::ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) fail(asked, what);
  if (state != ncclSuccess && state != ncclInProgress) fail(state, what);
}

void NcclCommunicator::abort() {
  if (comm_ != nullptr && !aborted_) ::ncclCommAbort(comm_);
  aborted_ = true;
}

CudaStream::CudaStream() { must_run(::cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }

CudaStream::~CudaStream() { ::cudaStreamDestroy(stream_); }

void CudaStream::follow_compute() {
  const StreamMark now(kComputeStream, nullptr);
  must_run(::cudaStreamWaitEvent(stream_, now.event(), 0), "ordering streams");
}

StreamMark::StreamMark(cudaStream_t stream, std::shared_ptr<NcclCommunicator> communicator)
    : communicator_(std::move(communicator)) {
  must_run(::cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
  must_run(::cudaEventRecord(event_, stream), "marking a stream");
}

StreamMark::~StreamMark() { ::cudaEventDestroy(event_); }

void StreamMark::wait() { must_run(::cudaStreamWaitEvent(kComputeStream, event_, 0), "waiting for communication"); }

bool StreamMark::poll() {
  if (communicator_) communicator_->check("communication");
  const cudaError_t state = ::cudaEventQuery(event_);
  if (state == cudaErrorNotReady) return false;
  must_run(state, "communication");
  return true;
}

void StreamMark::wait_on_host() {
  for (Backoff backoff; !poll();) backoff.pause();
}

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return ncclFloat32;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::int64:
      return ncclInt64;
    case DataType::float64:
      return ncclFloat64;
  }
  return ncclFloat32;
}

}  // namespace espalier::torchrt
