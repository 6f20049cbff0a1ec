#include "launcher/world/server/container_step.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "launcher/world/container.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Loop::Milliseconds kAgain{3000}, kLongestAgain{300'000};  // between two steps, longer each time
constexpr wire::Loop::Milliseconds kFind{50};                             // between two looks at its process
constexpr int kFinds = 100;
constexpr int kEnds = 250;  // looks of the destructor, 20 ms apart, at whether the step has ended
constexpr std::size_t kLongestLine = 4096;

wire::Descriptor opened(const std::string& path, int flags) {
  wire::Descriptor descriptor(::open(path.c_str(), flags | O_CLOEXEC));
  if (descriptor.get() < 0) throw Error(path + ": " + std::strerror(errno) + "; the container cannot be entered");
  return descriptor;
}

bool is_own(const wire::Descriptor& space, const char* name) {
  struct stat theirs = {};
  struct stat own = {};
  return ::fstat(space.get(), &theirs) == 0 && ::stat((std::string("/proc/self/ns/") + name).c_str(), &own) == 0 &&
         theirs.st_ino == own.st_ino && theirs.st_dev == own.st_dev;
}

// The number inside a user namespace of the user or group that has the number `outside` here. `map` is the namespace's
// uid_map or gid_map, whose lines are "inside outside length". A number that the map does not have stays as it is.
unsigned inside_id(const std::string& map, unsigned outside) {
  std::ifstream file(map);
  for (unsigned long inside = 0, first = 0, length = 0; file >> inside >> first >> length;)
    if (outside >= first && outside - first < length) return static_cast<unsigned>(inside + (outside - first));
  return outside;
}

std::vector<std::string> environment_of(const std::string& process) {
  std::ifstream file(process + "/environ", std::ios::binary);
  std::vector<std::string> list;
  for (std::string variable; std::getline(file, variable, '\0');) list.push_back(variable);
  return list;
}

}  // namespace

ContainerStep::ContainerStep(wire::Loop& loop, std::vector<std::string> command, Callbacks callbacks)
    : loop_(loop), command_(std::move(command)), callbacks_(std::move(callbacks)), given_(clean_environment({})) {
  start();
}

// The step ends with its process. Before there is one, SIGTERM makes srun end the step; a killed srun would leave it
// behind. srun alone would not do: it cannot end a step of a job that Slurm is ending.
ContainerStep::~ContainerStep() {
  if (!process_ || !process_->running()) return;
  if (waiting_.get() < 0 || ::syscall(SYS_pidfd_send_signal, waiting_.get(), SIGKILL, nullptr, 0) != 0)
    process_->signal_alone(SIGTERM);
  siginfo_t info{};
  for (int i = 0; i < kEnds && info.si_pid == 0; ++i) {
    if (::waitid(P_PID, static_cast<id_t>(process_->pid()), &info, WEXITED | WNOWAIT | WNOHANG) != 0) return;
    if (info.si_pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::vector<std::string> ContainerStep::environment(const std::vector<std::string>& own) const {
  auto all = environment_inside(own, inside_, given_);
  all.push_back("ESPALIER_UID=" + std::to_string(::getuid()));
  // Of PMIx's ways to prove who one is, this one names the user as he is called inside (PmixNamespace::user).
  all.push_back("PMIX_MCA_psec=native");
  return all;
}

void ContainerStep::start() {
  ready_ = false;
  line_.clear();
  problem_.clear();
  output_ = std::make_unique<RankOutput>(loop_, false, [this](const std::string& text) { printed(text); });
  errors_ = std::make_unique<RankOutput>(loop_, false, [this](const std::string& text) { said(text); });
  Child::Traits traits;
  traits.output = output_->writer();
  traits.errors = errors_->writer();
  process_ = std::make_unique<Child>(loop_, command_, given_, traits, [this](int status) { ended(status); });
  output_->started();
  errors_->started();
  limit_ = loop_.after(std::chrono::seconds(kImageSeconds), [this] {
    problem_ = "it was not there within " + std::to_string(kImageSeconds) + " s";
    process_->signal_alone(SIGTERM);
  });
}

void ContainerStep::printed(const std::string& text) {
  for (const char c : text) {
    if (c != '\n' && line_.size() < kLongestLine) line_.push_back(c);
    if (c != '\n') continue;
    const long pid = container_pid(std::exchange(line_, ""));
    if (pid > 0 && !ready_) find(static_cast<pid_t>(pid), kFinds);
  }
}

// Right after it has printed, the process executes another program, and then shows no environment for a moment.
void ContainerStep::find(pid_t pid, int tries) {
  try {
    look_at(pid);
  } catch (const Error& error) {
    if (tries > 1) {
      finds_ = loop_.after(kFind, [this, pid, tries] { find(pid, tries - 1); });
      return;
    }
    problem_ = error.what();
    return process_->signal_alone(SIGTERM);
  }
  limit_.reset();
  ready_ = was_ready_ = true;
  wait_ = kAgain;
  callbacks_.ready();
}

// What Slurm and pyxis tell while the container is made is for the user, as in any step.
void ContainerStep::said(const std::string& text) {
  if (ready_) return;
  last_words_ = text.substr(0, kLongestLine);
  while (last_words_.ends_with('\n')) last_words_.pop_back();
  std::fputs(text.c_str(), stderr);
}

void ContainerStep::look_at(pid_t pid) {
  wire::Descriptor waiting(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (waiting.get() < 0) throw Error("process " + std::to_string(pid) + " of the container: " + std::strerror(errno));
  ::fcntl(waiting.get(), F_SETFD, FD_CLOEXEC);
  const std::string process = "/proc/" + std::to_string(pid);
  auto user = opened(process + "/ns/user", O_RDONLY), mount = opened(process + "/ns/mnt", O_RDONLY);
  auto root = opened(process + "/root", O_PATH | O_DIRECTORY), folder = opened(process + "/cwd", O_PATH | O_DIRECTORY);
  if (is_own(mount, "mnt"))
    throw Error("the step of the container runs outside of any; is pyxis in plugstack.conf on this node?");
  inside_ = environment_of(process);
  if (inside_.empty()) throw Error(process + "/environ: the container's process has ended");
  uid_ = inside_id(process + "/uid_map", ::getuid());
  gid_ = inside_id(process + "/gid_map", ::getgid());
  waiting_ = std::move(waiting);
  user_ = std::move(user);
  mount_ = std::move(mount);
  root_ = std::move(root);
  folder_ = std::move(folder);
  entry_ = {is_own(user_, "user") ? -1 : user_.get(), mount_.get(), root_.get(), folder_.get()};
}

void ContainerStep::ended(int status) {
  output_->drain();
  errors_->drain();
  finds_.reset();
  limit_.reset();
  ready_ = false;
  if (!was_ready_) {
    const std::string& why = problem_.empty() ? last_words_ : problem_;
    return callbacks_.failed("the step of its container ended with code " + std::to_string(exit_code(status)) +
                             (why.empty() ? "" : " (" + why + ")"));
  }
  std::fprintf(stderr, "espalier: ranks: the step of a container ended with code %d; another one is started in %ld s\n",
               exit_code(status), static_cast<long>(wait_.count() / 1000));
  start_again();
}

void ContainerStep::start_again() {
  again_ = loop_.after(wait_, [this] {
    try {
      start();
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: ranks: %s; the container's step is tried again\n", error.what());
      start_again();
    }
  });
  wait_ = std::min(2 * wait_, kLongestAgain);
}

}  // namespace espalier::launcher
