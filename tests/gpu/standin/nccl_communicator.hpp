// Communicators of the stand-in for libnccl. What a call on one begins goes on in the communicator's thread.
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "tests/gpu/standin/nccl_mesh.hpp"

namespace standin {

// Lives as long as work on streams may use it.
struct Communicator {
  std::atomic<bool> aborted = false;
  std::atomic<int> state = ncclInProgress;
  std::string name;
  int rank = 0, size = 1, ordinal = 0, gpu = 0, splits = 0;
  bool blocking = true;
  std::unique_ptr<Mesh> data, control;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t launched = 0, finished = 0;  // operations on streams, one after the other whatever their streams
  std::deque<std::function<void()>> jobs;
  bool works = false;
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// Says why, also to ncclGetLastError. Returns the code.
ncclResult_t refuse(ncclResult_t code, const std::string& why);
std::string last_refusal();

// Connects it to the other ranks.
ncclResult_t open(Communicator& shared);
// Begins what a call asked for. A blocking communicator's call returns when it is done.
ncclResult_t begin(const CommunicatorPtr& shared, std::function<ncclResult_t()> work);
void wait_while_in_progress(const CommunicatorPtr& shared);

}  // namespace standin

struct ncclComm {
  standin::CommunicatorPtr shared;
};
