#include "tests/gpu/standin/memory.hpp"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"

namespace standin {

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) { return (bytes + kGranularity - 1) / kGranularity * kGranularity; }

// A piece of address space.
struct Range {
  std::size_t bytes = 0;
  Kind kind = Kind::device;
  int gpu = -1;         // that holds the memory
  int open_to = -1;     // GPU that may use it
  bool mapped = false;  // reserved ranges
  int fd = -1;          // ours, of the mapping: what others see that it is in use
};

std::mutex guard;
std::map<std::uintptr_t, Range>& ranges() {
  static auto* const all = new std::map<std::uintptr_t, Range>;
  return *all;
}

std::uintptr_t number(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Under the lock. The end: no range holds the address.
std::map<std::uintptr_t, Range>::iterator find(std::uintptr_t at) {
  auto next = ranges().upper_bound(at);
  if (next == ranges().begin()) return ranges().end();
  --next;
  return at < next->first + next->second.bytes ? next : ranges().end();
}

// Physical memory of a GPU. The descriptor, or -1 when the GPU is full.
int make_memory(int gpu, std::size_t bytes) {
  if (!fits(gpu, bytes)) return -1;
  const std::string name = "standin-" + settings().domain + "-gpu" + std::to_string(gpu) + "-" + std::to_string(bytes) +
                           "-" + std::to_string(epoch(gpu));
  const int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd >= 0 && ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

struct Descriptor {
  int gpu = -1;
  unsigned long long bytes = 0;
  long epoch = 0;
};

// False: it is no memory of a GPU of our domain.
bool describe(const std::string& path, Descriptor& found) {
  char target[256] = {};
  const std::string prefix = "/memfd:standin-" + settings().domain + "-";
  return ::readlink(path.c_str(), target, sizeof target - 1) > 0 &&
         std::strncmp(target, prefix.c_str(), prefix.size()) == 0 &&
         std::sscanf(target + prefix.size(), "gpu%d-%llu-%ld", &found.gpu, &found.bytes, &found.epoch) == 3;
}

// ---- cudaMalloc: small pieces share a block of 2 MiB, as IPC handles show.
struct Piece {
  char* block = nullptr;
  std::size_t at = 0, bytes = 0;
};
struct Block {
  std::size_t bytes = 0, used = 0;
  int pieces = 0, gpu = -1;
};
std::map<void*, Piece>& pieces() {
  static auto* const all = new std::map<void*, Piece>;
  return *all;
}
std::map<char*, Block>& blocks() {
  static auto* const all = new std::map<char*, Block>;
  return *all;
}

char* map_block(int gpu, std::size_t bytes) {
  const int fd = make_memory(gpu, bytes);
  if (fd < 0) return nullptr;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ranges()[number(memory)] = {bytes, Kind::device, gpu, gpu, true, fd};
  blocks()[static_cast<char*>(memory)] = {bytes, 0, 0, gpu};
  return static_cast<char*>(memory);
}

void unmap(std::map<std::uintptr_t, Range>::iterator range) {
  ::munmap(reinterpret_cast<void*>(range->first), range->second.bytes);
  if (range->second.fd >= 0) ::close(range->second.fd);
  ranges().erase(range);
}

// ---- The driver's virtual memory.
struct Physical {
  int fd = -1, gpu = -1;
  std::size_t bytes = 0;
};
Physical& physical(CUmemGenericAllocationHandle handle) { return *reinterpret_cast<Physical*>(handle); }

CUresult begin(const char* call) {
  if (const int due = enter(call, false); due != 0) return static_cast<CUresult>(due);
  return has_context() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

// The machine's number of a visible GPU; -1: there is none.
int gpu_at(int ordinal) {
  const auto& visible = settings().visible;
  return ordinal < 0 || static_cast<std::size_t>(ordinal) >= visible.size()
             ? -1
             : visible[static_cast<std::size_t>(ordinal)];
}

CUresult granularity(std::size_t* bytes, const CUmemAllocationProp* wanted, CUmemAllocationGranularity_flags) {
  if (const CUresult due = begin("cuMemGetAllocationGranularity"); due != CUDA_SUCCESS) return due;
  if (gpu_at(wanted->location.id) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* wanted,
                unsigned long long flags) {
  if (const CUresult due = begin("cuMemCreate"); due != CUDA_SUCCESS) return due;
  const int gpu = gpu_at(wanted->location.id);
  if (gpu < 0) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0 || wanted->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = make_memory(gpu, bytes);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical{fd, gpu, bytes});
  return CUDA_SUCCESS;
}

CUresult release_handle(CUmemGenericAllocationHandle handle) {
  if (const CUresult due = begin("cuMemRelease"); due != CUDA_SUCCESS) return due;
  ::close(physical(handle).fd);
  delete &physical(handle);
  return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  if (const CUresult due = begin("cuMemAddressReserve"); due != CUDA_SUCCESS) return due;
  if (bytes == 0 || bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(guard);
  ranges()[number(memory)] = {bytes, Kind::device, -1, -1, false, -1};
  *address = number(memory);
  return CUDA_SUCCESS;
}

CUresult free_address(CUdeviceptr address, std::size_t bytes) {
  if (const CUresult due = begin("cuMemAddressFree"); due != CUDA_SUCCESS) return due;
  const std::lock_guard lock(guard);
  const auto range = ranges().find(address);
  if (range == ranges().end() || range->second.bytes != bytes || range->second.mapped) return CUDA_ERROR_INVALID_VALUE;
  unmap(range);
  return CUDA_SUCCESS;
}

CUresult map_memory(CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
  if (const CUresult due = begin("cuMemMap"); due != CUDA_SUCCESS) return due;
  const std::lock_guard lock(guard);
  const auto range = ranges().find(address);
  if (range == ranges().end() || range->second.bytes != bytes || range->second.mapped || offset != 0 || flags != 0 ||
      bytes > physical(handle).bytes)
    return CUDA_ERROR_INVALID_VALUE;
  // No access yet: using it faults.
  void* const memory =
      ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical(handle).fd, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  range->second.mapped = true;
  range->second.gpu = physical(handle).gpu;
  range->second.fd = ::fcntl(physical(handle).fd, F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}

CUresult unmap_memory(CUdeviceptr address, std::size_t bytes) {
  if (const CUresult due = begin("cuMemUnmap"); due != CUDA_SUCCESS) return due;
  const std::lock_guard lock(guard);
  const auto range = ranges().find(address);
  if (range == ranges().end() || range->second.bytes != bytes || !range->second.mapped) return CUDA_ERROR_INVALID_VALUE;
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
  ::close(range->second.fd);
  range->second = {bytes, Kind::device, -1, -1, false, -1};
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  if (const CUresult due = begin("cuMemSetAccess"); due != CUDA_SUCCESS) return due;
  const std::lock_guard lock(guard);
  const auto range = ranges().find(address);
  if (range == ranges().end() || range->second.bytes != bytes || !range->second.mapped || count != 1)
    return CUDA_ERROR_INVALID_VALUE;
  const int gpu = gpu_at(access->location.id);
  if (gpu < 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!settings().reaches(gpu, range->second.gpu)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const bool open = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ::mprotect(reinterpret_cast<void*>(address), bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  range->second.open_to = open ? gpu : -1;
  return CUDA_SUCCESS;
}

CUresult export_handle(void* shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                       unsigned long long) {
  if (const CUresult due = begin("cuMemExportToShareableHandle"); due != CUDA_SUCCESS) return due;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  const int fd = ::fcntl(physical(handle).fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  std::memcpy(shared, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

CUresult import_handle(CUmemGenericAllocationHandle* handle, void* shared, CUmemAllocationHandleType type) {
  if (const CUresult due = begin("cuMemImportFromShareableHandle"); due != CUDA_SUCCESS) return due;
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(shared));
  Descriptor found;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !describe("/proc/self/fd/" + std::to_string(given), found))
    return CUDA_ERROR_INVALID_VALUE;
  // A GPU that the Slurm job was not given cannot be opened, nor one of another node.
  if (!settings().sees(found.gpu) || !settings().same_node(found.gpu, current_gpu())) return CUDA_ERROR_INVALID_DEVICE;
  if (found.epoch != epoch(found.gpu) && found.gpu == current_gpu()) return CUDA_ERROR_INVALID_HANDLE;
  const int fd = ::fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical{fd, found.gpu, found.bytes});
  return CUDA_SUCCESS;
}

CUresult attribute(int* value, CUdevice_attribute wanted, CUdevice device) {
  if (const CUresult due = begin("cuDeviceGetAttribute"); due != CUDA_SUCCESS) return due;
  if (gpu_at(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *value = settings().descriptors && (wanted == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
                                      wanted == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  return CUDA_SUCCESS;
}

CUresult error_string(CUresult error, const char** text) {
  *text = ::cudaGetErrorString(static_cast<cudaError_t>(error));  // numbered alike
  return CUDA_SUCCESS;
}

}  // namespace

Kind kind_of(const void* memory, std::size_t bytes, int gpu) {
  const std::lock_guard lock(guard);
  const auto range = find(number(memory));
  if (range == ranges().end()) return Kind::host;
  if (number(memory) + bytes > range->first + range->second.bytes) return Kind::fault;
  if (range->second.kind != Kind::device) return range->second.kind;
  return range->second.mapped && range->second.open_to >= 0 && settings().reaches(gpu, range->second.open_to)
             ? Kind::device
             : Kind::fault;
}

void note_memory(void* memory, std::size_t bytes, Kind kind, int gpu) {
  const std::lock_guard lock(guard);
  ranges()[number(memory)] = {bytes, kind, gpu, gpu, true, -1};
}
void forget_memory(const void* memory) {
  const std::lock_guard lock(guard);
  ranges().erase(number(memory));
}

int allocate(void** memory, std::size_t bytes) {
  const std::lock_guard lock(guard);
  const int gpu = current_gpu();
  *memory = nullptr;
  if (bytes == 0) return 0;
  const std::size_t wanted = (bytes + 255) / 256 * 256;
  if (wanted < kGranularity / 2)
    for (auto& [start, block] : blocks())
      if (block.gpu == gpu && block.bytes == kGranularity && block.used + wanted <= block.bytes) {
        *memory = start + block.used;
        pieces()[*memory] = {start, block.used, wanted};
        block.used += wanted;
        ++block.pieces;
        return 0;
      }
  char* const start = map_block(gpu, rounded(wanted));
  if (start == nullptr) return 2;
  Block& block = blocks()[start];
  // A large one's block is its own.
  block.used = wanted < kGranularity / 2 ? wanted : block.bytes;
  block.pieces = 1;
  pieces()[start] = {start, 0, wanted};
  *memory = start;
  return 0;
}

int release(void* memory) {
  const std::lock_guard lock(guard);
  const auto piece = pieces().find(memory);
  if (piece == pieces().end()) return 1;
  char* const start = piece->second.block;
  pieces().erase(piece);
  if (--blocks()[start].pieces > 0) return 0;
  blocks().erase(start);
  unmap(ranges().find(number(start)));
  return 0;
}

// ---- CUDA IPC: a handle names a whole block, which ends with its process.
namespace {

struct IpcHandle {
  pid_t pid;
  int fd, gpu;
  std::uint64_t bytes;
  ino_t file;
};
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

}  // namespace

}  // namespace standin

using namespace standin;

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  if (const int due = enter("cudaIpcGetMemHandle"); due != 0) return static_cast<cudaError_t>(leave(due));
  const std::lock_guard lock(guard);
  const auto piece = pieces().find(memory);
  if (piece == pieces().end()) return static_cast<cudaError_t>(leave(1));  // of virtual memory there is none
  const Range& range = ranges()[number(piece->second.block)];
  struct stat status {};
  ::fstat(range.fd, &status);
  const IpcHandle made{::getpid(), range.fd, range.gpu, range.bytes, status.st_ino};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &made, sizeof made);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned int) {
  if (const int due = enter("cudaIpcOpenMemHandle"); due != 0) return static_cast<cudaError_t>(leave(due));
  IpcHandle given{};
  std::memcpy(&given, &handle, sizeof given);
  if (given.pid == ::getpid()) return static_cast<cudaError_t>(leave(201));
  if (!settings().sees(given.gpu) || !settings().same_node(given.gpu, current_gpu()))
    return static_cast<cudaError_t>(leave(101));
  if (!settings().reaches(current_gpu(), given.gpu)) return static_cast<cudaError_t>(leave(217));
  const std::string path = "/proc/" + std::to_string(given.pid) + "/fd/" + std::to_string(given.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0 || status.st_ino != given.file) {
    if (fd >= 0) ::close(fd);
    return static_cast<cudaError_t>(leave(1));  // its maker is gone
  }
  void* const mapped = ::mmap(nullptr, given.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const std::lock_guard lock(guard);
  ranges()[number(mapped)] = {given.bytes, Kind::device, given.gpu, current_gpu(), true, fd};
  *memory = mapped;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  if (const int due = enter("cudaIpcCloseMemHandle"); due != 0) return static_cast<cudaError_t>(leave(due));
  const std::lock_guard lock(guard);
  const auto range = ranges().find(number(memory));
  if (range == ranges().end()) return static_cast<cudaError_t>(leave(1));
  unmap(range);
  return cudaSuccess;
}

}  // extern "C"

namespace standin {

void* driver_function(const char* name) {
  static const std::map<std::string, void*> all = {
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(granularity)},
      {"cuMemCreate", reinterpret_cast<void*>(create)},
      {"cuMemRelease", reinterpret_cast<void*>(release_handle)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(free_address)},
      {"cuMemMap", reinterpret_cast<void*>(map_memory)},
      {"cuMemUnmap", reinterpret_cast<void*>(unmap_memory)},
      {"cuMemSetAccess", reinterpret_cast<void*>(set_access)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(export_handle)},
      {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(import_handle)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(attribute)},
      {"cuGetErrorString", reinterpret_cast<void*>(error_string)},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace standin
