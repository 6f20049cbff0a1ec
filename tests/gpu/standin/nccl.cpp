// A stand-in for libnccl: between processes of one machine, over sockets. Operations run on the streams of the stand-in
// for libcudart. Communicators that do not block answer ncclInProgress and go on in a thread, as NCCL's do.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/nccl_communicator.hpp"
#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"

using namespace standin;

namespace {

[[gnu::constructor]] void announce() {
  std::fprintf(stderr, "stand-in: THIS IS NO NCCL: a test's stand-in for libnccl is loaded (process %d)\n", ::getpid());
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string words;
  words = last_refusal();
  return words.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const int due = count_call("ncclGetUniqueId"); due != 0) return static_cast<ncclResult_t>(due);
  std::memset(id, 0, sizeof *id);
  std::random_device chance;
  std::snprintf(id->internal, sizeof id->internal, "%08x%08x", chance(), chance());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const int due = count_call("ncclCommInitRankConfig"); due != 0) return static_cast<ncclResult_t>(due);
  const auto shared = std::make_shared<Communicator>();
  shared->name = id.internal;
  shared->rank = rank;
  shared->size = ranks;
  shared->ordinal = current_ordinal();
  shared->gpu = current_gpu();
  shared->blocking = config == nullptr || config->blocking != 0;
  *made = new ncclComm{shared};
  return begin(shared, [shared] { return open(*shared); });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  if (const int due = count_call("ncclCommSplit"); due != 0) return static_cast<ncclResult_t>(due);
  const CommunicatorPtr parent = comm->shared;
  if (parent->state == ncclInProgress)
    return refuse(ncclInvalidUsage, "a split of a communicator whose last call is still in progress");
  const bool blocking = config == nullptr ? parent->blocking : config->blocking != 0;
  const int number = parent->splits++;
  const ncclResult_t begun = begin(parent, [=]() -> ncclResult_t {
    std::string mine(16, '\0');
    std::memcpy(mine.data(), &color, sizeof color);
    std::memcpy(mine.data() + 4, &key, sizeof key);
    std::vector<std::string> all;
    if (const ncclResult_t code = parent->control->gather(mine, all); code != ncclSuccess) return code;
    if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    std::vector<std::pair<int, int>> members;  // key and rank
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      int theirs[2];
      std::memcpy(theirs, all[rank].data(), sizeof theirs);
      if (theirs[0] == color) members.push_back({theirs[1], static_cast<int>(rank)});
    }
    std::sort(members.begin(), members.end());
    const auto child = std::make_shared<Communicator>();
    child->name = parent->name + "." + std::to_string(number) + "." + std::to_string(color);
    child->size = static_cast<int>(members.size());
    child->ordinal = parent->ordinal;
    child->gpu = parent->gpu;
    child->blocking = blocking;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (members[i].second == parent->rank) child->rank = static_cast<int>(i);
    const ncclResult_t code = open(*child);
    child->state = code;
    *made = new ncclComm{child};
    return code;
  });
  // Success: that the call is under way shows only in the parent's state.
  return begun == ncclInProgress ? ncclSuccess : begun;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* code) {
  if (const int due = count_call("ncclCommGetAsyncError"); due != 0) return static_cast<ncclResult_t>(due);
  *code = static_cast<ncclResult_t>(comm->shared->state.load());
  return ncclSuccess;
}

static void drop(ncclComm_t comm) {
  discharge(comm->shared->gpu, settings().communicator);
  delete comm;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  count_call("ncclCommAbort");
  {
    const std::lock_guard lock(comm->shared->mutex);
    comm->shared->aborted = true;
    comm->shared->changed.notify_all();
  }
  drop(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (const int due = count_call("ncclCommFinalize"); due != 0) return static_cast<ncclResult_t>(due);
  const CommunicatorPtr shared = comm->shared;
  return begin(shared, [shared] {
    std::unique_lock lock(shared->mutex);
    shared->changed.wait(lock,
                         [&] { return shared->finished == shared->launched || shared->aborted || broken() != 0; });
    return ncclSuccess;
  });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  count_call("ncclCommDestroy");
  drop(comm);
  return ncclSuccess;
}

}  // extern "C"
