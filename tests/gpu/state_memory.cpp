// state_memory descriptors|held|left|ipc BYTES: state of one generation taken over by the next on one GPU, between two
// processes. With descriptors the memory is adopted, outlives its maker and needs no room; "held": its maker is dead
// when it is adopted, and nothing but the descriptors has kept it; "left": the same, and no process used the GPU
// meanwhile, as after a failure (the driver must be in persistence mode); by CUDA IPC it is copied in chunks while its
// maker lives. Prints a JSON object; what is wrong goes to stderr, exit status 1.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/device/cuda.hpp"
#include "torchrt/handoff/state_socket.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

constexpr std::size_t kUnit = std::size_t{1} << 30, kChunk = std::size_t{64} << 20, kSample = 4096;

struct Unit {
  int number;
  std::size_t bytes;
};

std::vector<Unit> units(std::size_t bytes) {
  std::vector<Unit> list;
  for (int number = 0; bytes > 0; ++number) {
    list.push_back({number, std::min(bytes, kUnit)});
    bytes -= list.back().bytes;
  }
  return list;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::size_t used_now() {
  std::size_t left = 0, all = 0;
  if (::cudaMemGetInfo(&left, &all) != cudaSuccess) throw Error("cudaMemGetInfo failed");
  return all - left;
}

std::vector<char> pattern(const Unit& unit) { return std::vector<char>(kSample, static_cast<char>(unit.number + 1)); }

// Both ends of a unit.
void write(Device& device, void* data, const Unit& unit) {
  const std::vector<char> bytes = pattern(unit);
  device.from_host(data, bytes.data(), kSample);
  device.from_host(static_cast<char*>(data) + unit.bytes - kSample, bytes.data(), kSample);
}
void check(Device& device, const void* data, const Unit& unit, const char* when) {
  std::vector<char> first(kSample), last(kSample);
  device.to_host(first.data(), data, kSample);
  device.to_host(last.data(), static_cast<const char*>(data) + unit.bytes - kSample, kSample);
  if (first != pattern(unit) || last != pattern(unit))
    throw Error("unit " + std::to_string(unit.number) + " is not what it was, " + when);
}

[[noreturn]] void old_generation(CudaSharing sharing, const std::vector<Unit>& list, const std::string& address,
                                 int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const auto device = make_cuda_device(0, sharing);
    std::vector<std::unique_ptr<Allocation>> state;
    for (const Unit& unit : list) {
      state.push_back(device->allocate(unit.bytes, "state"));
      write(*device, state.back()->data(), unit);
    }
    StateServer server(address);
    for (const Unit& unit : list)
      server.offer({unit.number}, state[static_cast<std::size_t>(unit.number)]->fd(), unit.bytes);
    server.mark(1);
    if (::write(ready, "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "state_memory: the old generation: %s\n", error.what());
    ::_exit(1);
  }
}

// Once.
void end(pid_t& old) {
  if (old <= 0) return;
  ::kill(old, SIGKILL);
  ::waitpid(old, nullptr, 0);
  old = 0;
}

void new_generation(const std::string& method, const std::vector<Unit>& list, const std::string& address, pid_t& old) {
  const auto fetch = [&] {
    std::vector<FetchedState> fetched;
    for (const Unit& unit : list) fetched.push_back(fetch_state(address, {unit.number}));
    return fetched;
  };
  std::vector<FetchedState> fetched;
  if (method == "left") {
    fetched = fetch();
    end(old);
  }
  const auto device = make_cuda_device(0, method == "ipc" ? CudaSharing::ipc : CudaSharing::descriptors);
  const std::size_t before = used_now();
  std::vector<std::unique_ptr<Allocation>> state, borrowed;
  auto start = std::chrono::steady_clock::now();
  if (fetched.empty()) fetched = fetch();
  if (method == "held") {
    end(old);
    start = std::chrono::steady_clock::now();
  }
  for (FetchedState& one : fetched) borrowed.push_back(device->adopt(std::move(one.fd), one.bytes));
  const double map_ms = milliseconds_since(start);
  double allocate_ms = 0, copy_ms = 0;
  std::size_t bytes = 0;
  if (!device->adopts()) {
    start = std::chrono::steady_clock::now();
    for (const Unit& unit : list) state.push_back(device->allocate(unit.bytes, "state"));
    allocate_ms = milliseconds_since(start);
    start = std::chrono::steady_clock::now();
    for (const Unit& unit : list)
      for (std::size_t at = 0; at < unit.bytes; at += kChunk) {
        const auto i = static_cast<std::size_t>(unit.number);
        const std::size_t chunk = std::min(kChunk, unit.bytes - at);
        device->copy_runs(static_cast<char*>(state[i]->data()) + at, chunk,
                          static_cast<const char*>(borrowed[i]->data()) + at, chunk, chunk, 1);
        bytes += chunk;
      }
    device->finish_copies();
    copy_ms = milliseconds_since(start);
    borrowed.clear();
  } else {
    state = std::move(borrowed);
  }
  const auto extra = static_cast<double>(used_now()) - static_cast<double>(before);
  for (const Unit& unit : list)
    check(*device, state[static_cast<std::size_t>(unit.number)]->data(), unit, "taken over");
  // The old generation goes; the state stays.
  end(old);
  for (const Unit& unit : list)
    check(*device, state[static_cast<std::size_t>(unit.number)]->data(), unit, "after its maker's death");
  double total = 0;
  for (const Unit& unit : list) total += static_cast<double>(unit.bytes);
  std::printf(
      "{\"method\": \"%s\", \"state_bytes\": %.0f, \"map_ms\": %.3f, \"allocate_ms\": %.3f, \"copy_ms\": %.3f, "
      "\"copy_gb_s\": %.1f, \"extra_memory_bytes\": %.0f}\n",
      method.c_str(), total, map_ms, allocate_ms, copy_ms,
      copy_ms > 0 ? static_cast<double>(bytes) / copy_ms / 1e6 : 0.0, extra);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string method = count == 3 ? arguments[1] : "";
  const std::size_t bytes = count == 3 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  const bool known = method == "descriptors" || method == "held" || method == "left" || method == "ipc";
  if (!known || bytes < 2 * kSample) {
    std::fprintf(stderr, "usage: state_memory descriptors|held|left|ipc BYTES (at least %zu)\n", 2 * kSample);
    return 2;
  }
  const CudaSharing sharing = method == "ipc" ? CudaSharing::ipc : CudaSharing::descriptors;
  const std::string address = "espalier-state-memory-" + std::to_string(::getpid());
  int ready[2];
  if (::pipe(ready) != 0) return 1;
  // Before CUDA starts here: a context does not survive a fork.
  pid_t old = ::fork();
  if (old == 0) old_generation(sharing, units(bytes), address, ready[1]);
  ::close(ready[1]);
  char said = 0;
  if (old < 0 || ::read(ready[0], &said, 1) != 1) return 1;
  try {
    new_generation(method, units(bytes), address, old);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "state_memory: the new generation: %s\n", error.what());
    end(old);
    return 1;
  }
}
