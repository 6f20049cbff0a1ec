#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "launcher/node/keeper.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

// The initial environment of a process; empty when it is not ours to read.
std::string environment_of(const std::string& pid) {
  const wire::Descriptor file(::open(("/proc/" + pid + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(1, '\0');
  char block[16384];
  while (file) {
    const ssize_t count = ::read(file.get(), block, sizeof block);
    if (count <= 0) break;
    text.append(block, static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

int kill_local_processes(unsigned job) {
  const std::string mark = std::string(1, '\0') + "SLURM_JOB_ID=" + std::to_string(job) + std::string(1, '\0');
  const std::string self = std::to_string(::getpid());
  int count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (proc) {
    const dirent* entry = ::readdir(proc.get());
    if (entry == nullptr) break;
    const std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos || pid == self) continue;
    struct stat status {};
    if (::stat(("/proc/" + pid).c_str(), &status) != 0 || status.st_uid != ::getuid()) continue;
    if (environment_of(pid).find(mark) == std::string::npos) continue;
    if (::kill(static_cast<pid_t>(std::atoi(pid.c_str())), SIGKILL) == 0) ++count;
  }
  return count;
}

}  // namespace espalier::launcher
