#include "launcher/node/own_processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

// A NUL is before and after each variable.
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

void each_own_process(const std::function<void(pid_t process, const std::string& environment)>& visit) {
  const std::string self = std::to_string(::getpid());
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (proc) {
    const dirent* entry = ::readdir(proc.get());
    if (entry == nullptr) break;
    const std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos || pid == self) continue;
    struct stat status {};
    if (::stat(("/proc/" + pid).c_str(), &status) != 0 || status.st_uid != ::getuid()) continue;
    visit(static_cast<pid_t>(std::atoi(pid.c_str())), environment_of(pid));
  }
}

std::string variable_in(const std::string& environment, const std::string& name) {
  const std::string mark = std::string(1, '\0') + name + "=";
  const auto at = environment.find(mark);
  if (at == std::string::npos) return {};
  const auto begin = at + mark.size(), end = environment.find('\0', begin);
  return environment.substr(begin, end == std::string::npos ? end : end - begin);
}

bool another_step_runs(JobId job, unsigned step) {
  bool runs = false;
  each_own_process([&](pid_t, const std::string& environment) {
    const std::string of_step = variable_in(environment, "SLURM_STEP_ID");
    runs = runs || (variable_in(environment, "SLURM_JOB_ID") == std::to_string(job) && !of_step.empty() &&
                    of_step != std::to_string(step));
  });
  return runs;
}

}  // namespace espalier::launcher
