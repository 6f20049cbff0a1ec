#include "planner/cli/start_slurm.hpp"

#include <fcntl.h>
#include <slurm/slurm.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::cli {
namespace {

constexpr unsigned kSeconds = 60;  // that slurm_init() may take

// Why slurm_init() failed in a child process; empty: it returned. Only Slurm's library knows all the places where a
// site may keep the configuration, and where it finds none it ends its process.
std::string failure_of_slurm() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  const wire::Descriptor read(ends[0]);
  wire::Descriptor write(ends[1]);
  std::fflush(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return "";
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::alarm(kSeconds);
    ::dup2(write.get(), STDERR_FILENO);
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    slurm_init(nullptr);
    ::_exit(0);
  }
  write.reset();
  std::string text;
  std::array<char, 512> block{};
  for (ssize_t count = 0;
       (count = ::read(read.get(), block.data(), block.size())) > 0 || (count < 0 && errno == EINTR);)
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return "its library has not got one within " + std::to_string(kSeconds) + " s";
  const std::string word = "fatal: ";
  const std::size_t at = text.rfind(word);
  if (at == std::string::npos) return "its library ended";
  const std::size_t begin = at + word.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void start_slurm(const std::string& otherwise) {
  if (const std::string failure = failure_of_slurm(); !failure.empty())
    throw Error("Slurm: no usable configuration on this host (" + failure +
                "); set SLURM_CONF, or run it where Slurm's commands work" +
                (otherwise.empty() ? "" : ", " + otherwise));
  slurm_init(nullptr);
}

}  // namespace espalier::cli
