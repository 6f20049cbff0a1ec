#include "launcher/process/child.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "launcher/process/reaping.hpp"
#include "planner/core/error.hpp"

extern char** environ;

namespace espalier::launcher {
namespace {

constexpr int kStart = 10'000;  // ms
constexpr std::chrono::milliseconds kReap{2000};
constexpr std::size_t kMostCpus = 1 << 16, kCpuBytes = CPU_ALLOC_SIZE(kMostCpus);

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};
using CpuMask = std::unique_ptr<cpu_set_t, FreeMask>;

// SRUN_CPUS_PER_TASK and its like are meant for the user's own srun. The steps of the launcher have other shapes.
bool belongs_to_step(std::string_view variable) {
  if (variable.starts_with("SLURM_CONF=")) return false;
  for (const std::string_view prefix :
       {"SLURM_", "_SLURM_", "SRUN_", "SPANK_", "PMIX_", "PMI_", "PMI2_", "OMPI_COMM_", "ESPALIER_PROGRAM"})
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
                         const Child::Traits& traits, const cpu_set_t* cpus, pid_t parent, int report) {
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
  // The child gets no descriptor that this process has inherited itself.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (traits.inherited >= 0) ::fcntl(traits.inherited, F_SETFD, 0);
  limit_resources(traits.limits);
  if (cpus != nullptr) ::sched_setaffinity(0, kCpuBytes, cpus);
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

std::string late() {
  return "has not started within " + std::to_string(kStart / 1000) + " s; check the file system it is on";
}

// From the pipe of become(): the program could not be started. A successful exec has closed the pipe, so that there is
// nothing to read.
std::optional<std::string> problem_in(int report) {
  int error = 0;
  if (::read(report, &error, sizeof error) != sizeof error) return std::nullopt;
  return std::string("cannot be started: ") + std::strerror(error);
}

bool readable_within(int fd, int milliseconds) {
  pollfd wait{fd, POLLIN, 0};
  int ready = -1;
  do ready = ::poll(&wait, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  return ready == 1;
}

// What is not reaped in time is left to init.
void kill_and_reap(const std::vector<ChildProcess>& processes) {
  for (const ChildProcess& one : processes)
    if (::kill(-one.pid, SIGKILL) != 0) ::kill(one.pid, SIGKILL);
  reap(processes, kReap);
}

// Children are constructed, and end, on the main thread only.
std::set<pid_t>& owned() {
  static std::set<pid_t> pids;
  return pids;
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
  const CpuMask cpus(traits.cpus.empty() ? nullptr : CPU_ALLOC(kMostCpus));
  if (cpus) {
    CPU_ZERO_S(kCpuBytes, cpus.get());
    for (const int cpu : traits.cpus) CPU_SET_S(static_cast<std::size_t>(cpu), kCpuBytes, cpus.get());
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw Error(command[0] + ": cannot fork: " + std::strerror(errno));
  if (pid_ == 0) become(arguments.data(), paths.data(), variables.data(), traits, cpus.get(), parent, writer.get());
  writer.reset();
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  const auto end = [&](const std::string& why) {
    kill_and_reap({{pid_, pidfd_}});
    if (pidfd_ >= 0) ::close(pidfd_);
    throw Error(command[0] + ": " + why);
  };
  if (pidfd_ < 0) end(std::string("cannot be watched: ") + std::strerror(errno));
  if (traits.refused) {
    watch(loop);
    await_start(loop, {command[0], std::move(reader), std::move(traits.refused), {}, {}});
    return;
  }
  if (!readable_within(reader.get(), kStart)) end(late());
  if (const auto problem = problem_in(reader.get())) end(*problem);
  watch(loop);
}

void Child::await_start(wire::Loop& loop, Start start) {
  start_ = std::move(start);
  start_->readable = loop.on_readable(start_->report.get(), [this] { reported(); });
  start_->limit = loop.after(wire::Loop::Milliseconds(kStart), [this] {
    signal(SIGKILL);
    refuse(late());
  });
}

bool Child::reported() {
  if (const auto problem = problem_in(start_->report.get())) return refuse(*problem), false;
  start_.reset();
  return true;
}

// The owner may destroy this object in its callback.
void Child::refuse(const std::string& why) {
  const Start start = std::move(*start_);
  start_.reset();
  on_exit_ = nullptr;
  start.refused(start.program + ": " + why);
}

Child::Child(wire::Loop& loop, pid_t pid, std::function<void(int status)> on_exit)
    : pid_(pid), on_exit_(std::move(on_exit)) {
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  siginfo_t info{};
  if (pidfd_ < 0 || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    const int error = errno;
    if (pidfd_ >= 0) ::close(pidfd_);
    throw Error("process " + std::to_string(pid_) + ": cannot be watched: " + std::strerror(error));
  }
  watch(loop);
}

bool Child::owns(pid_t pid) { return owned().contains(pid); }

void Child::watch(wire::Loop& loop) {
  running_ = true;
  owned().insert(pid_);
  ::fcntl(pidfd_, F_SETFD, FD_CLOEXEC);
  watch_ = loop.on_readable(pidfd_, [this] { reap(); });
}

Child::~Child() {
  end_all({this});
  if (pidfd_ >= 0) ::close(pidfd_);
}

void Child::end_all(const std::vector<Child*>& children) {
  std::vector<ChildProcess> running;
  for (Child* const child : children) {
    child->start_.reset();
    child->watch_.reset();
    if (child->running_) running.push_back({child->pid_, child->pidfd_});
  }
  kill_and_reap(running);
  for (Child* const child : children)
    if (std::exchange(child->running_, false)) owned().erase(child->pid_);
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
  owned().erase(pid_);
  watch_.reset();
  ::kill(-pid_, SIGKILL);  // processes that the child has left in its group
  if (start_ && !reported()) return;
  const auto callback = std::move(on_exit_);
  if (callback) callback(status);
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
}

}  // namespace espalier::launcher
