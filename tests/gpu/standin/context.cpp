#include "tests/gpu/standin/context.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"

namespace standin {

namespace {

constexpr int kMost = 64;  // GPUs

// A page that others read through /proc: it ends with the process, however that ends.
struct Ledger {
  std::atomic<std::uint64_t> bytes[kMost];
  std::atomic<std::uint32_t> contexts[kMost];
};

pid_t owner = 0;  // of the contexts: they do not survive a fork
std::mutex starting;
Ledger* ledger = nullptr;
long epochs[kMost] = {};
thread_local int ordinal = 0;
thread_local int last = 0;

std::string ledger_name() { return "standin-" + settings().domain + "-ledger"; }

// Calls `see` for each descriptor of each process that is a memfd of our domain: its name after the domain, the link,
// the file.
void each_descriptor(const std::function<void(const std::string&, const std::string&, ino_t)>& see) {
  const std::string prefix = "/memfd:standin-" + settings().domain + "-";
  DIR* const processes = ::opendir("/proc");
  if (processes == nullptr) return;
  while (const dirent* const process = ::readdir(processes)) {
    if (process->d_name[0] < '0' || process->d_name[0] > '9') continue;
    const std::string folder = std::string("/proc/") + process->d_name + "/fd";
    DIR* const links = ::opendir(folder.c_str());
    if (links == nullptr) continue;
    while (const dirent* const link = ::readdir(links)) {
      const std::string path = folder + "/" + link->d_name;
      char target[256] = {};
      if (::readlink(path.c_str(), target, sizeof target - 1) <= 0 ||
          std::strncmp(target, prefix.c_str(), prefix.size()) != 0)
        continue;
      struct stat status {};
      if (::stat(path.c_str(), &status) != 0) continue;
      std::string name = target + prefix.size();
      see(name.substr(0, name.find(' ')), path, status.st_ino);
    }
    ::closedir(links);
  }
  ::closedir(processes);
}

bool context_of_another(int gpu) {
  bool found = false;
  each_descriptor([&](const std::string& name, const std::string& path, ino_t) {
    if (name != "ledger" || path.starts_with("/proc/" + std::to_string(::getpid()) + "/")) return;
    std::ifstream in(path, std::ios::binary);
    Ledger other{};
    in.read(reinterpret_cast<char*>(&other), sizeof other);
    found = found || other.contexts[gpu] != 0;
  });
  return found;
}

long current_epoch(int gpu) {
  if (settings().folder.empty()) return 0;
  const std::string path = settings().folder + "/epoch." + std::to_string(gpu);
  long now = 0;
  std::ifstream(path) >> now;
  if (!settings().persistence && !context_of_another(gpu)) std::ofstream(path) << ++now;
  return now;
}

int start() {
  const std::lock_guard lock(starting);
  if (owner != 0 && owner != ::getpid()) return 3;  // not initialized: forked
  if (settings().visible.empty()) return 100;
  owner = ::getpid();
  if (ledger == nullptr) {
    const int fd = ::memfd_create(ledger_name().c_str(), MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, sizeof(Ledger)) != 0) return 999;
    ledger = static_cast<Ledger*>(::mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  const int gpu = current_gpu();
  if (ledger->contexts[gpu] != 0) return 0;
  if (settings().exclusive && context_of_another(gpu)) return 46;
  if (!fits(gpu, settings().context)) return 2;
  epochs[gpu] = current_epoch(gpu);
  ledger->bytes[gpu] += settings().context;
  ledger->contexts[gpu] = 1;
  count(("contexts on GPU " + std::to_string(gpu)).c_str(), 1);
  return 0;
}

}  // namespace

int current_gpu() {
  const auto& visible = settings().visible;
  return visible.empty() ? 0 : visible[static_cast<std::size_t>(ordinal)];
}
int current_ordinal() { return ordinal; }

int choose(int wanted) {
  if (wanted < 0 || static_cast<std::size_t>(wanted) >= settings().visible.size()) return 101;
  ordinal = wanted;
  return 0;
}

bool has_context() { return ledger != nullptr && owner == ::getpid() && ledger->contexts[current_gpu()] != 0; }

int make_context() { return has_context() ? 0 : start(); }

int enter(const char* call, bool starts) {
  if (broken() != 0) return broken();
  if (const int due = count_call(call); due != 0) {
    break_context(due);
    return due;
  }
  return starts ? make_context() : 0;
}

int leave(int error) {
  if (error != 0) last = error;
  return error;
}
int last_error() { return broken() != 0 ? broken() : last; }
int take_last_error() {
  const int taken = last_error();
  last = 0;
  return taken;
}

std::size_t used(int gpu) {
  std::size_t total = 0;
  std::set<ino_t> seen;
  each_descriptor([&](const std::string& name, const std::string& path, ino_t file) {
    if (!seen.insert(file).second) return;
    int owning = 0;
    unsigned long long bytes = 0;
    if (name == "ledger") {
      std::ifstream in(path, std::ios::binary);
      Ledger other{};
      in.read(reinterpret_cast<char*>(&other), sizeof other);
      total += other.bytes[gpu];
    } else if (std::sscanf(name.c_str(), "gpu%d-%llu", &owning, &bytes) == 2 && owning == gpu) {
      total += bytes;
    }
  });
  return total;
}

bool fits(int gpu, std::size_t bytes) { return settings().memory == 0 || used(gpu) + bytes <= settings().memory; }

bool charge(int gpu, std::size_t bytes) {
  if (ledger == nullptr || !fits(gpu, bytes)) return ledger == nullptr;
  ledger->bytes[gpu] += bytes;
  return true;
}
void discharge(int gpu, std::size_t bytes) {
  if (ledger != nullptr) ledger->bytes[gpu] -= bytes;
}

long epoch(int gpu) { return epochs[gpu]; }

}  // namespace standin
