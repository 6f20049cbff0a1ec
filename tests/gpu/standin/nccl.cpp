// A stand-in for libnccl: between processes of one machine, over sockets. Operations run on the streams of the stand-in
// for libcudart. Communicators that do not block answer ncclInProgress and go on in a thread, as NCCL's do.
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/standin/api.hpp"
#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/nccl_mesh.hpp"
#include "tests/gpu/standin/nccl_reduce.hpp"
#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"

using namespace standin;

namespace {

[[gnu::constructor]] void announce() {
  std::fprintf(stderr, "stand-in: THIS IS NO NCCL: a test's stand-in for libnccl is loaded (process %d)\n", ::getpid());
}

using Operation = std::function<ncclResult_t(Mesh&)>;

// Lives as long as work on streams may use it.
struct Shared {
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
using SharedPtr = std::shared_ptr<Shared>;

std::mutex naming;
ncclResult_t refuse(ncclResult_t code, const std::string& why) {
  const std::lock_guard lock(naming);
  last_words() = why;
  std::fprintf(stderr, "stand-in: rank %d: NCCL: %s\n", settings().rank, why.c_str());
  return code;
}

void pause_by_seed() {
  if (settings().delay_us == 0) return;
  thread_local std::mt19937_64 chance(settings().seed * 77 + static_cast<std::uint64_t>(::gettid()));
  ::usleep(static_cast<useconds_t>(chance() % settings().delay_us));
}

// In the communicator's thread, one after the other.
void do_later(const SharedPtr& shared, std::function<void()> job) {
  const std::lock_guard lock(shared->mutex);
  shared->jobs.push_back(std::move(job));
  if (std::exchange(shared->works, true)) return;
  sigset_t every, before;
  sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread([shared] {
    choose(shared->ordinal);
    for (;;) {
      std::function<void()> next;
      {
        const std::lock_guard guard(shared->mutex);
        if (shared->jobs.empty()) {
          shared->works = false;
          return;
        }
        next = std::move(shared->jobs.front());
        shared->jobs.pop_front();
      }
      pause_by_seed();
      next();
    }
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void wait_while_in_progress(const SharedPtr& shared) {
  while (shared->state == ncclInProgress && !shared->aborted) ::usleep(200);
}

// Begins what a call asked for. A blocking communicator's call returns when it is done.
ncclResult_t begin(const SharedPtr& shared, std::function<ncclResult_t()> work) {
  shared->state = ncclInProgress;
  do_later(shared, [shared, work = std::move(work)] {
    const ncclResult_t found = work();
    int expected = ncclInProgress;
    shared->state.compare_exchange_strong(expected, found);
  });
  if (!shared->blocking) return ncclInProgress;
  wait_while_in_progress(shared);
  return static_cast<ncclResult_t>(shared->state.load());
}

ncclResult_t open(Shared& shared) {
  if (count_call("nccl_memory") != 0 || !charge(shared.gpu, settings().communicator)) {
    // NCCL warns of CUDA's error first. What asked for the memory then warns, too, and that is what remains.
    refuse(ncclUnhandledCudaError, "Failed to CUDA calloc async 4096 bytes");
    return ncclUnhandledCudaError;
  }
  shared.data = std::make_unique<Mesh>(shared.name + "d", shared.rank, shared.size, shared.aborted);
  shared.control = std::make_unique<Mesh>(shared.name + "c", shared.rank, shared.size, shared.aborted);
  const ncclResult_t first = shared.data->connect();
  return first != ncclSuccess ? first : shared.control->connect();
}

}  // namespace

struct ncclComm {
  SharedPtr shared;
};

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
int perform(const SharedPtr& shared, std::uint64_t ticket, const Operation& operation) {
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
  const SharedPtr shared = one.comm->shared;
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

char* bytes_of(const void* memory) { return static_cast<char*>(const_cast<void*>(memory)); }

// Every rank's values of this rank's part, added to its own. The first is another one on each rank, as in NCCL's rings.
ncclResult_t reduce_part(Mesh& mesh, const std::function<Transfer(int)>& part_of, char* own, std::size_t count,
                         ncclDataType_t type, ncclRedOp_t op) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::vector<char>> values(static_cast<std::size_t>(mesh.size()), std::vector<char>(bytes));
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer == mesh.rank()) continue;
    transfers.push_back(part_of(peer));
    transfers.push_back({false, peer, values[static_cast<std::size_t>(peer)].data(), bytes});
  }
  const ncclResult_t found = mesh.run(transfers);
  if (found != ncclSuccess) return found;
  for (int i = 1; i < mesh.size(); ++i)
    reduce(own, values[static_cast<std::size_t>((mesh.rank() + i) % mesh.size())].data(), count, type, op);
  return ncclSuccess;
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
  const std::lock_guard lock(naming);
  thread_local std::string words;
  words = last_words();
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
  const auto shared = std::make_shared<Shared>();
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
  const SharedPtr parent = comm->shared;
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
    const auto child = std::make_shared<Shared>();
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
  const SharedPtr shared = comm->shared;
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

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  standin::count("messages", 1);
  standin::count("message_bytes", bytes);
  const Transfer transfer{true, peer, bytes_of(data), bytes};
  return ask("ncclSend", comm, stream, {{data, bytes}}, &transfer, {});
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const Transfer transfer{false, peer, bytes_of(data), bytes};
  return ask("ncclRecv", comm, stream, {{data, bytes}}, &transfer, {});
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t size = size_of(type);
  return ask("ncclAllReduce", comm, stream, {{from, count * size}, {to, count * size}}, nullptr, [=](Mesh& mesh) {
    if (from != to) std::memmove(to, from, count * size);
    const auto ranks = static_cast<std::size_t>(mesh.size());
    const auto part = [&](int rank) {
      const std::size_t first = count * static_cast<std::size_t>(rank) / ranks;
      const std::size_t end = count * (static_cast<std::size_t>(rank) + 1) / ranks;
      return Transfer{true, rank, bytes_of(to) + first * size, (end - first) * size};
    };
    const Transfer own = part(mesh.rank());
    if (const ncclResult_t code = reduce_part(mesh, part, own.data, own.bytes / size, type, op); code != ncclSuccess)
      return code;
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < mesh.size(); ++peer) {
      if (peer == mesh.rank()) continue;
      transfers.push_back({true, peer, own.data, own.bytes});
      const Transfer theirs = part(peer);
      transfers.push_back({false, peer, theirs.data, theirs.bytes});
    }
    return mesh.run(transfers);
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(comm->shared->size);
  return ask("ncclReduceScatter", comm, stream, {{from, ranks * bytes}, {to, bytes}}, nullptr, [=](Mesh& mesh) {
    char* const mine = bytes_of(from) + static_cast<std::size_t>(mesh.rank()) * bytes;
    if (to != mine) std::memmove(to, mine, bytes);
    const auto part = [&](int rank) {
      return Transfer{true, rank, bytes_of(from) + static_cast<std::size_t>(rank) * bytes, bytes};
    };
    return reduce_part(mesh, part, bytes_of(to), count, type, op);
  });
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return ask("ncclReduce", comm, stream, {{from, bytes}}, nullptr, [=](Mesh& mesh) {
    if (mesh.rank() != root) return mesh.run({{true, root, bytes_of(from), bytes}});
    if (to != from) std::memmove(to, from, bytes);
    return reduce_part(
        mesh,
        [&](int rank) {
          return Transfer{true, rank, nullptr, 0};
        },
        bytes_of(to), count, type, op);
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(comm->shared->size);
  return ask("ncclAllGather", comm, stream, {{from, bytes}, {to, ranks * bytes}}, nullptr, [=](Mesh& mesh) {
    char* const mine = bytes_of(to) + static_cast<std::size_t>(mesh.rank()) * bytes;
    if (mine != from) std::memmove(mine, from, bytes);
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < mesh.size(); ++peer) {
      if (peer == mesh.rank()) continue;
      transfers.push_back({true, peer, mine, bytes});
      transfers.push_back({false, peer, bytes_of(to) + static_cast<std::size_t>(peer) * bytes, bytes});
    }
    return mesh.run(transfers);
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return ask("ncclBroadcast", comm, stream, {{to, bytes}}, nullptr, [=](Mesh& mesh) {
    if (mesh.rank() != root) return mesh.run({{false, root, bytes_of(to), bytes}});
    if (to != from) std::memmove(to, from, bytes);
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < mesh.size(); ++peer)
      if (peer != root) transfers.push_back({true, peer, bytes_of(from), bytes});
    return mesh.run(transfers);
  });
}

}  // extern "C"
