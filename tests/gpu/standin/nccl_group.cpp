#include "tests/gpu/standin/nccl_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tests/gpu/standin/api.hpp"
#include "tests/gpu/standin/nccl_communicator.hpp"
#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"

namespace standin {

namespace {

// What calls since ncclGroupStart asked for.
struct Asked {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;  // messages of the group go together
  Operation collective;
};
thread_local int depth = 0;
thread_local std::vector<Asked> asked;
thread_local ncclResult_t group_error = ncclSuccess;

// On the stream: after the communicator's operations before it. A failure is seen by ncclCommGetAsyncError, and the
// stream stands until the communicator is aborted.
int perform(const CommunicatorPtr& shared, std::uint64_t ticket, const Operation& operation) {
  {
    std::unique_lock lock(shared->mutex);
    shared->changed.wait(lock, [&] { return shared->finished == ticket || shared->aborted || broken() != 0; });
  }
  ncclResult_t found = ncclInProgress;
  if (!shared->aborted) {
    const int due = count_call("nccl_operation");
    if (due >= 1000) break_context(due - 1000);
    found = due >= 1000 ? ncclUnhandledCudaError : due != 0 ? static_cast<ncclResult_t>(due) : operation(*shared->data);
  }
  if (found != ncclSuccess && found != ncclInProgress) {
    refuse(found, std::string("an operation failed: ") + ::ncclGetErrorString(found));
    shared->state = found;
    while (!shared->aborted && broken() == 0) ::usleep(1000);
  }
  const std::lock_guard lock(shared->mutex);
  ++shared->finished;
  shared->changed.notify_all();
  return 0;
}

ncclResult_t launch(Asked& one) {
  const CommunicatorPtr shared = one.comm->shared;
  if (shared->state == ncclInProgress)
    return refuse(ncclInvalidUsage, "a call on a communicator whose last call is still in progress");
  if (shared->state != ncclSuccess) return static_cast<ncclResult_t>(shared->state.load());
  const Target target = target_of(one.stream);
  if (!target) return refuse(ncclInvalidArgument, "there is no such stream");
  Operation operation = one.collective;
  if (!operation) operation = [transfers = std::move(one.transfers)](Mesh& mesh) { return mesh.run(transfers); };
  const auto start = [shared, target, operation] {
    std::uint64_t ticket = 0;
    {
      const std::lock_guard lock(shared->mutex);
      ticket = shared->launched++;
    }
    target([shared, ticket, operation] { return perform(shared, ticket, operation); });
    return ncclSuccess;
  };
  return begin(shared, start);
}

ncclResult_t finish_group() {
  std::vector<Asked> all = std::exchange(asked, {});
  ncclResult_t worst = std::exchange(group_error, ncclSuccess);
  if (worst != ncclSuccess) return worst;
  for (Asked& one : all) {
    // Two operations of one communicator in a group: NCCL launches them together.
    if (&one != &all.front()) wait_while_in_progress(one.comm->shared);
    const ncclResult_t code = launch(one);
    if (code != ncclSuccess && (worst == ncclSuccess || worst == ncclInProgress)) worst = code;
  }
  return worst;
}

}  // namespace

ncclResult_t ask(const char* call, ncclComm_t comm, cudaStream_t stream,
                 std::initializer_list<std::pair<const void*, std::size_t>> memory, const Transfer* transfer,
                 Operation collective) {
  ncclResult_t code = static_cast<ncclResult_t>(count_call(call));
  if (code == ncclSuccess && broken() != 0) code = ncclUnhandledCudaError;
  for (const auto& [data, bytes] : memory)
    if (code == ncclSuccess && !is_device_memory(data, bytes))
      code = refuse(ncclInvalidArgument, std::string(call) + ": this is not memory of the GPU");
  if (code != ncclSuccess) {
    if (depth > 0 && group_error == ncclSuccess) group_error = code;
    return code;
  }
  if (transfer != nullptr) {
    const auto same = std::find_if(asked.begin(), asked.end(), [&](const Asked& one) {
      return one.comm == comm && one.stream == stream && !one.collective;
    });
    Asked& into = same != asked.end() ? *same : asked.emplace_back(Asked{comm, stream, {}, {}});
    into.transfers.push_back(*transfer);
  } else {
    asked.push_back({comm, stream, {}, std::move(collective)});
  }
  return depth > 0 ? ncclSuccess : finish_group();
}

}  // namespace standin

using namespace standin;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const int due = count_call("ncclGroupEnd");
  if (--depth > 0) return ncclSuccess;
  if (due != 0) {
    asked.clear();
    group_error = ncclSuccess;
    return static_cast<ncclResult_t>(due);
  }
  return finish_group();
}

}  // extern "C"
