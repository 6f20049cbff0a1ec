#include "launcher/node/keepers_step.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/process/child.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

constexpr std::string_view kKept = "espalier: keeper: kept";
constexpr int kLooks = 200;    // ms, for the end of this process
constexpr int kEnds = 250;     // looks at whether srun has ended
constexpr long kEndLook = 20;  // ms between two of them

struct Started {
  pid_t process = -1;       // -1: it could not be started
  wire::Descriptor output;  // its standard output
};

std::vector<std::string> step_command(const JobContext& context, const std::vector<std::string>& nodes) {
  const std::string count = std::to_string(nodes.size());
  // With --no-kill the step lives on when one of its nodes is lost (tried on 22.05).
  std::vector<std::string> words{"srun",       "--jobid=" + std::to_string(context.job),
                                 "--overlap",  "--mpi=none",
                                 "--mem=0",    "--input=none",
                                 "--quiet",    "--gres=none",
                                 "--no-kill",  "--kill-on-bad-exit=0",
                                 "--wait=0",   "-N" + count,
                                 "-n" + count, "--ntasks-per-node=1",
                                 "-w",         fold_hosts(nodes)};
  if (const char* bind = std::getenv("ESPALIER_CPU_BIND"); bind != nullptr)
    words.push_back(std::string("--cpu-bind=") + bind);
  words.insert(words.end(), {context.self, "keeper", "--base-node"});
  return words;
}

Started start(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const wire::Descriptor written(ends[1]);
  Started started{-1, wire::Descriptor(ends[0])};
  std::vector<std::string> variables = clean_environment({});
  std::vector<char*> command, environment;
  for (std::string& word : words) command.push_back(word.data());
  for (std::string& one : variables) environment.push_back(one.data());
  command.push_back(nullptr);
  environment.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, written.get(), STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (::posix_spawnp(&started.process, "srun", &files, &attributes, command.data(), environment.data()) != 0)
    started.process = -1;
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return started;
}

// Whether so many keepers have said that they run before the end of srun and of this process. A node may take long to
// start its keeper. Meanwhile srun must have a reader: it would end its tasks when it cannot write. A site's task
// prolog writes to the same output.
bool all_said(const wire::Descriptor& output, std::ptrdiff_t keepers, const std::stop_token& ends) {
  std::string line;
  while (keepers > 0 && !ends.stop_requested()) {
    pollfd entry{output.get(), POLLIN, 0};
    if (::poll(&entry, 1, kLooks) <= 0) continue;
    char text[256];
    const ssize_t count = ::read(output.get(), text, sizeof text);
    if (count <= 0) return false;
    for (const char one : std::string_view(text, static_cast<std::size_t>(count))) {
      if (one != '\n') {
        if (line.size() <= kKept.size()) line += one;
        continue;
      }
      if (line == kKept) --keepers;
      line.clear();
    }
  }
  return keepers <= 0;
}

// The kernel lists a process's children by thread. The result is empty where it lists none.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> found;
  std::error_code error;
  const auto threads = std::filesystem::path("/proc") / std::to_string(process) / "task";
  for (std::filesystem::directory_iterator at(threads, error), end; !error && at != end; at.increment(error)) {
    std::ifstream file(at->path() / "children");
    for (pid_t child = 0; file >> child;) found.push_back(child);
  }
  return found;
}

// False: srun's second process was not found, so srun stays. Killed alone it would end the step.
bool end_srun(pid_t srun) {
  const auto children = children_of(srun);
  if (children.empty()) return false;
  for (const pid_t child : children) ::kill(child, SIGKILL);
  ::kill(srun, SIGKILL);
  for (int look = 0; look < kEnds && ::waitpid(srun, nullptr, WNOHANG) == 0; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(kEndLook));
  return true;
}

// Reads what srun writes until its end or that of this process.
void drain(const wire::Descriptor& output, const std::stop_token& ends) {
  all_said(output, std::numeric_limits<std::ptrdiff_t>::max(), ends);
}

}  // namespace

void say_kept() {
  std::puts(kKept.data());
  std::fflush(stdout);
}

KeepersStep::KeepersStep(const JobContext& context) {
  auto nodes = expand_hosts(std::getenv("SLURM_JOB_NODELIST"));
  std::erase(nodes, context.node);
  if (nodes.empty()) return;
  Started started = start(step_command(context, nodes));
  if (started.process < 0) {
    std::fprintf(stderr, "espalier: keeper: srun cannot be started; state on other nodes does not outlive workers\n");
    return;
  }
  srun_ = std::jthread([started = std::move(started), keepers = std::ssize(nodes)](const std::stop_token& ends) {
    if (all_said(started.output, keepers, ends) && !end_srun(started.process)) drain(started.output, ends);
  });
}

}  // namespace espalier::launcher
