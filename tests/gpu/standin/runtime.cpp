// libcudart's functions that the product and libtorch_cpu call.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/gpu/standin/api.hpp"
#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/memory.hpp"
#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"

using namespace standin;

namespace {

using Clock = std::chrono::steady_clock;

[[gnu::constructor]] void announce() {
  std::fprintf(stderr, "stand-in: THIS IS NO GPU: a test's stand-in for libcudart is loaded (process %d)\n",
               ::getpid());
}

struct Event {
  int gpu = 0;
  Place place;  // none: never recorded
  std::shared_ptr<Clock::time_point> time = std::make_shared<Clock::time_point>();
};
std::mutex guard;
std::map<cudaEvent_t, Event>& events() {
  static auto* const all = new std::map<cudaEvent_t, Event>;
  return *all;
}

cudaError_t result(int code) { return static_cast<cudaError_t>(leave(code)); }

// An error leaves the calling function.
#define STANDIN_ENTER(call) \
  if (const int due = enter(call); due != 0) return result(due)

bool on_gpu(Kind kind) { return kind == Kind::device || kind == Kind::fault; }

// Puts a copy of `rows` rows on the stream; the host waits as CUDA's does.
int copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t rows,
         cudaMemcpyKind wanted, const StreamPtr& stream, bool host_waits) {
  if (width == 0 || rows == 0) return 0;
  const int gpu = gpu_of(*stream);
  const std::size_t to_bytes = to_pitch * (rows - 1) + width, from_bytes = from_pitch * (rows - 1) + width;
  const Kind target = kind_of(to, to_bytes, gpu), source = kind_of(from, from_bytes, gpu);
  if ((wanted == cudaMemcpyDeviceToHost && (!on_gpu(source) || on_gpu(target))) ||
      (wanted == cudaMemcpyHostToDevice && (on_gpu(source) || !on_gpu(target))) ||
      (wanted == cudaMemcpyDeviceToDevice && (!on_gpu(source) || !on_gpu(target))))
    return cudaErrorInvalidValue;
  count("copies", 1);
  count("copied_bytes", width * rows);
  if (target == Kind::host && on_gpu(source)) count("bytes_to_pageable", width * rows);
  std::shared_ptr<std::vector<char>> staged;
  if (source == Kind::host) {  // pageable: the driver has taken it when the call returns
    staged = std::make_shared<std::vector<char>>(from_bytes);
    std::memcpy(staged->data(), from, from_bytes);
  }
  const Place end = enqueue(stream, [=] {
    if (kind_of(to, to_bytes, gpu) == Kind::fault || (!staged && kind_of(from, from_bytes, gpu) == Kind::fault)) {
      std::fprintf(stderr, "stand-in: rank %d: a copy uses GPU memory to which it has no access\n", settings().rank);
      return 700;
    }
    const char* const source_data = staged ? staged->data() : static_cast<const char*>(from);
    for (std::size_t row = 0; row < rows; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch, source_data + row * from_pitch, width);
    return 0;
  });
  // To pageable memory a copy is done when the call returns. From one place of the GPU to another it is not, even with
  // cudaMemcpy.
  if (target == Kind::host || (host_waits && !(on_gpu(source) && on_gpu(target)))) wait_for(end);
  return broken();
}

int fill(void* memory, int value, std::size_t bytes) {
  const StreamPtr stream = stream_of(nullptr);
  const int gpu = gpu_of(*stream);
  if (!on_gpu(kind_of(memory, bytes, gpu))) return cudaErrorInvalidValue;
  count("fills", 1);
  enqueue(stream, [=] {
    if (kind_of(memory, bytes, gpu) != Kind::device) return 700;
    std::memset(memory, value, bytes);
    return 0;
  });
  return 0;
}

int device_wait(const char*) {
  count("device_syncs", 1);
  wait_for_gpu(current_gpu());
  return broken();
}

int record(cudaEvent_t handle, const StreamPtr& stream) {
  const std::lock_guard lock(guard);
  const auto found = events().find(handle);
  if (found == events().end() || !stream) return cudaErrorInvalidResourceHandle;
  if (found->second.gpu != gpu_of(*stream)) return cudaErrorInvalidResourceHandle;
  const auto time = found->second.time;
  found->second.place = enqueue(stream, [time] {
    *time = Clock::now();
    return 0;
  });
  return 0;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* found) {
  if (const int due = enter("cudaGetDeviceCount", false); due != 0) return result(due);
  *found = static_cast<int>(settings().visible.size());
  return result(*found == 0 ? cudaErrorNoDevice : cudaSuccess);
}
// Makes the context, as CUDA's does since 12.
cudaError_t cudaSetDevice(int ordinal) {
  if (const int due = enter("cudaSetDevice", false); due != 0) return result(due);
  if (const int wrong = choose(ordinal); wrong != 0) return result(wrong);
  return result(make_context());
}
cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = current_ordinal();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr wanted, int ordinal) {
  if (const int due = enter("cudaDeviceGetAttribute", false); due != 0) return result(due);
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= settings().visible.size())
    return result(cudaErrorInvalidDevice);
  *value = wanted == cudaDevAttrMaxPitch      ? 2147483647
           : wanted == cudaDevAttrComputeMode ? (settings().exclusive ? cudaComputeModeExclusiveProcess : 0)
                                              : 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int ordinal) {
  if (const int due = enter("cudaGetDeviceProperties", false); due != 0) return result(due);
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= settings().visible.size())
    return result(cudaErrorInvalidDevice);
  std::memset(found, 0, sizeof *found);
  std::strncpy(found->name, settings().name.c_str(), sizeof found->name - 1);
  found->totalGlobalMem = settings().memory > 0 ? settings().memory : std::size_t{80} << 30;
  found->pciBusID = settings().visible[static_cast<std::size_t>(ordinal)] + 1;
  found->major = 9;
  return cudaSuccess;
}
// The machine's GPU N is at 0000:<N+1>:00.0.
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int ordinal) {
  if (const int due = enter("cudaDeviceGetPCIBusId", false); due != 0) return result(due);
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= settings().visible.size())
    return result(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                settings().visible[static_cast<std::size_t>(ordinal)] + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetByPCIBusId(int* ordinal, const char* text) {
  if (const int due = enter("cudaDeviceGetByPCIBusId", false); due != 0) return result(due);
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return result(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < settings().visible.size(); ++i)
    if (domain == 0 && settings().visible[i] + 1 == static_cast<int>(bus)) {
      *ordinal = static_cast<int>(i);
      return cudaSuccess;
    }
  return result(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  if (const int due = enter("cudaDeviceCanAccessPeer", false); due != 0) return result(due);
  const auto& visible = settings().visible;
  for (const int one : {ordinal, peer})
    if (one < 0 || static_cast<std::size_t>(one) >= visible.size()) return result(cudaErrorInvalidDevice);
  *can = ordinal != peer &&
         settings().reaches(visible[static_cast<std::size_t>(ordinal)], visible[static_cast<std::size_t>(peer)]);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  STANDIN_ENTER("cudaDeviceSynchronize");
  return result(device_wait("cudaDeviceSynchronize"));
}
cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(take_last_error()); }
cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(last_error()); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case 0:
      return "no error";
    case 1:
      return "invalid argument";
    case 2:
      return "out of memory";
    case 3:
      return "initialization error";
    case 46:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case 100:
      return "no CUDA-capable device is detected";
    case 101:
      return "invalid device ordinal";
    case 201:
      return "invalid device context";
    case 214:
      return "uncorrectable ECC error encountered";
    case 217:
      return "peer access is not supported between these two devices";
    case 400:
      return "invalid resource handle";
    case 600:
      return "device not ready";
    case 700:
      return "an illegal memory access was encountered";
    case 802:
      return "system not yet initialized";
    case 803:
      return "system has unsupported display driver / cuda driver combination";
    default:
      return "an error of the stand-in";
  }
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* whole) {
  STANDIN_ENTER("cudaMemGetInfo");
  *whole = settings().memory > 0 ? settings().memory : std::size_t{80} << 30;
  const std::size_t taken = used(current_gpu());
  *left = taken < *whole ? *whole - taken : 0;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  STANDIN_ENTER("cudaMalloc");
  return result(allocate(memory, bytes));
}
// Waits for all work of the GPU, as CUDA does.
cudaError_t cudaFree(void* memory) {
  STANDIN_ENTER("cudaFree");
  if (memory == nullptr) return cudaSuccess;
  wait_for_gpu(current_gpu());
  if (broken() != 0) return result(broken());
  return result(release(memory));
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned int) {
  STANDIN_ENTER("cudaHostRegister");
  note_memory(memory, bytes, Kind::pinned, -1);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  STANDIN_ENTER("cudaHostUnregister");
  forget_memory(memory);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  STANDIN_ENTER("cudaMemset");
  return result(fill(memory, value, bytes));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  STANDIN_ENTER("cudaMemcpy");
  return result(copy(to, bytes, from, bytes, bytes, 1, kind, stream_of(nullptr), true));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  STANDIN_ENTER("cudaMemcpyAsync");
  const StreamPtr found = stream_of(stream);
  return result(found ? copy(to, bytes, from, bytes, bytes, 1, kind, found, false) : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                         std::size_t rows, cudaMemcpyKind kind) {
  STANDIN_ENTER("cudaMemcpy2D");
  if (to_pitch < width || from_pitch < width) return result(cudaErrorInvalidPitchValue);
  return result(copy(to, to_pitch, from, from_pitch, width, rows, kind, stream_of(nullptr), true));
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  STANDIN_ENTER("cudaMemcpy2DAsync");
  if (to_pitch < width || from_pitch < width) return result(cudaErrorInvalidPitchValue);
  const StreamPtr found = stream_of(stream);
  return result(found ? copy(to, to_pitch, from, from_pitch, width, rows, kind, found, false)
                      : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  STANDIN_ENTER("cudaStreamCreateWithFlags");
  *stream = handle_of(make_stream(current_gpu(), (flags & cudaStreamNonBlocking) == 0));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  STANDIN_ENTER("cudaStreamDestroy");
  const StreamPtr found = stream_of(stream);
  if (!found || stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  forget_stream(found);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  STANDIN_ENTER("cudaStreamSynchronize");
  const StreamPtr found = stream_of(stream);
  if (!found) return result(cudaErrorInvalidResourceHandle);
  count("stream_syncs", 1);
  wait_for(end_of(found));
  return result(broken());
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  STANDIN_ENTER("cudaStreamQuery");
  const StreamPtr found = stream_of(stream);
  if (!found) return result(cudaErrorInvalidResourceHandle);
  if (!done(end_of(found))) return cudaErrorNotReady;
  return result(broken());
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  STANDIN_ENTER("cudaStreamWaitEvent");
  const StreamPtr found = stream_of(stream);
  const std::lock_guard lock(guard);
  const auto known = events().find(event);
  if (!found || known == events().end()) return result(cudaErrorInvalidResourceHandle);
  if (known->second.place.stream) await(found, known->second.place);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  STANDIN_ENTER("cudaEventCreateWithFlags");
  const std::lock_guard lock(guard);
  static std::uintptr_t next = 0x1000;
  *event = reinterpret_cast<cudaEvent_t>(next += 16);
  events()[*event].gpu = current_gpu();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  STANDIN_ENTER("cudaEventDestroy");
  const std::lock_guard lock(guard);
  return result(events().erase(event) > 0 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  STANDIN_ENTER("cudaEventRecord");
  return result(record(event, stream_of(stream)));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  STANDIN_ENTER("cudaEventQuery");
  const std::lock_guard lock(guard);
  const auto known = events().find(event);
  if (known == events().end()) return result(cudaErrorInvalidResourceHandle);
  if (known->second.place.stream && !done(known->second.place)) return cudaErrorNotReady;
  return result(broken());
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  STANDIN_ENTER("cudaEventSynchronize");
  Place place;
  {
    const std::lock_guard lock(guard);
    const auto known = events().find(event);
    if (known == events().end()) return result(cudaErrorInvalidResourceHandle);
    place = known->second.place;
  }
  if (place.stream) wait_for(place);
  return result(broken());
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  STANDIN_ENTER("cudaEventElapsedTime");
  const std::lock_guard lock(guard);
  const auto first = events().find(start), last = events().find(end);
  if (first == events().end() || last == events().end()) return result(cudaErrorInvalidResourceHandle);
  for (const auto& known : {first, last})
    if (!known->second.place.stream || !done(known->second.place)) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*last->second.time - *first->second.time).count();
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  *function = driver_function(name);
  *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"

// ---- For libnccl's stand-in and for torch's.
namespace standin {

Target target_of(cudaStream_t stream) {
  const StreamPtr found = stream_of(stream);
  if (!found) return {};
  return [found](std::function<int()> work) { enqueue(found, std::move(work)); };
}
bool is_device_memory(const void* memory, std::size_t bytes) {
  return bytes == 0 || kind_of(memory, bytes, current_gpu()) == Kind::device;
}
void drain_compute() {
  const Place end = end_of(stream_of(nullptr));
  if (!done(end)) count("compute_waits", 1);
  wait_for(end);
}
int torch_error() { return broken(); }

}  // namespace standin
