#include "launcher/process/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

extern char** environ;

namespace espalier::launcher {
namespace {

constexpr int kStart = 10'000, kReap = 2'000;  // ms

bool belongs_to_step(std::string_view variable) {
  if (variable.starts_with("SLURM_CONF=")) return false;
  for (const std::string_view prefix :
       {"SLURM_", "_SLURM_", "SPANK_", "PMIX_", "PMI_", "PMI2_", "OMPI_COMM_", "ESPALIER_PROGRAM"})
    if (variable.starts_with(prefix)) return true;
  return false;
}

// A limit above the node's hard limit becomes the hard limit.
void limit_resources(const std::vector<std::int64_t>& limits) {
  for (std::size_t resource = 0; resource < limits.size(); ++resource) {
    rlimit limit{};
    const auto number = static_cast<__rlimit_resource>(resource);
    if (::getrlimit(number, &limit) != 0) continue;
    const rlim_t wanted = limits[resource] < 0 ? RLIM_INFINITY : static_cast<rlim_t>(limits[resource]);
    limit.rlim_cur = std::min(wanted, limit.rlim_max);
    ::setrlimit(number, &limit);
  }
}

// Runs between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(char* const* command, char* const* paths, char* const* environment,
                         const Child::Traits& traits, pid_t parent, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before prctl
  ::setpgid(0, 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  if (traits.blocks_term) sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2}) std::signal(number, SIG_DFL);
  if (traits.output >= 0) ::dup2(traits.output, 1);
  if (traits.errors >= 0) ::dup2(traits.errors, 2);
  if (traits.inherited >= 0) ::fcntl(traits.inherited, F_SETFD, 0);
  limit_resources(traits.limits);
  if (!traits.keeps_stdin) {
    const int null = ::open("/dev/null", O_RDONLY);
    if (null > 0) {
      ::dup2(null, 0);
      ::close(null);
    }
  }
  const bool is_in = !traits.entry || enter(*traits.entry);
  const bool is_there = is_in && (traits.folder.empty() || ::chdir(traits.folder.c_str()) == 0);
  int error = errno;
  if (is_there) error = ENOENT;
  for (; is_there && *paths != nullptr; ++paths) {
    ::execvpe(*paths, command, environment);
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof error);
  ::_exit(127);
}

bool readable_within(int fd, int milliseconds) {
  pollfd wait{fd, POLLIN, 0};
  int ready = -1;
  do ready = ::poll(&wait, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  return ready == 1;
}

// Waits 2 s at most. A process that hangs in the kernel, e.g. in a file system that is away, does not even end on
// SIGKILL. init reaps it.
void kill_and_reap(pid_t pid, int pidfd) {
  if (::kill(-pid, SIGKILL) != 0) ::kill(pid, SIGKILL);
  if (pidfd < 0 || readable_within(pidfd, kReap)) ::waitpid(pid, nullptr, WNOHANG);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  list.reserve(strings.size() + 1);
  for (const std::string& string : strings) list.push_back(const_cast<char*>(string.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

std::vector<std::string> clean_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> environment;
  // Most programs see the first of two variables of one name. A variable that the user, or an elastic job around this
  // one, has set must not come before one of `extra`.
  std::set<std::string_view> ours;
  for (const std::string& variable : extra) ours.insert(std::string_view(variable).substr(0, variable.find('=')));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view theirs = *variable;
    if (!belongs_to_step(theirs) && !ours.contains(theirs.substr(0, theirs.find('='))))
      environment.emplace_back(theirs);
  }
  environment.insert(environment.end(), extra.begin(), extra.end());
  return environment;
}

Child::Child(wire::Loop& loop, const std::vector<std::string>& command, const std::vector<std::string>& environment,
             Traits traits, std::function<void(int status)> on_exit)
    : on_exit_(std::move(on_exit)) {
  const auto arguments = pointers(command), variables = pointers(environment);
  if (traits.paths.empty()) traits.paths = {command[0]};
  const auto paths = pointers(traits.paths);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw Error(command[0] + ": no pipe: " + std::strerror(errno));
  wire::Descriptor reader(report[0]), writer(report[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw Error(command[0] + ": cannot fork: " + std::strerror(errno));
  if (pid_ == 0) become(arguments.data(), paths.data(), variables.data(), traits, parent, writer.get());
  writer.reset();
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  const auto refuse = [&](const std::string& why) {
    kill_and_reap(pid_, pidfd_);
    if (pidfd_ >= 0) ::close(pidfd_);
    throw Error(command[0] + ": " + why);
  };
  if (pidfd_ < 0) refuse(std::string("cannot be watched: ") + std::strerror(errno));
  if (!readable_within(reader.get(), kStart))
    refuse("has not started within " + std::to_string(kStart / 1000) + " s; check the file system it is on");
  int error = 0;
  // A successful exec has closed the pipe, so that there is nothing to read.
  if (::read(reader.get(), &error, sizeof error) == sizeof error)
    refuse(std::string("cannot be started: ") + std::strerror(error));
  running_ = true;
  ::fcntl(pidfd_, F_SETFD, FD_CLOEXEC);
  watch_ = loop.on_readable(pidfd_, [this] { reap(); });
}

Child::~Child() {
  watch_.reset();
  if (running_) kill_and_reap(pid_, pidfd_);
  if (pidfd_ >= 0) ::close(pidfd_);
}

void Child::signal(int number) const {
  if (!running_) return;
  if (::kill(-pid_, number) != 0) ::kill(pid_, number);
}

void Child::signal_alone(int number) const {
  if (running_) ::kill(pid_, number);
}

void Child::reap() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
  running_ = false;
  watch_.reset();
  ::kill(-pid_, SIGKILL);  // processes that the child has left in its group
  const auto callback = std::move(on_exit_);
  if (callback) callback(status);
}

std::vector<std::int64_t> resource_limits() {
  std::vector<std::int64_t> limits;
  for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) break;
    limits.push_back(limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(limit.rlim_cur));
  }
  return limits;
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
}

}  // namespace espalier::launcher
