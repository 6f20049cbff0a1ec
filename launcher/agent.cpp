#include "launcher/agent.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/directory.hpp"
#include "launcher/launcher_address.hpp"
#include "launcher/lost_teller.hpp"
#include "launcher/tether.hpp"
#include "launcher/world_command.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/client.hpp"

namespace espalier::launcher {

int replace_by(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  std::fprintf(stderr, "espalier: launch: %s: cannot be executed: %s\n", arguments[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

int execution_error(const std::string& program) {
  const auto check = [](const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return errno;
    if (S_ISDIR(status.st_mode) || ::access(path.c_str(), X_OK) != 0) return EACCES;
    return 0;
  };
  if (program.find('/') != std::string::npos) return check(program);
  const char* variable = std::getenv("PATH");
  std::istringstream path(variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable);
  int error = ENOENT;
  for (std::string directory; std::getline(path, directory, ':');) {
    const int found = check((directory.empty() ? "." : directory) + "/" + program);
    if (found == 0) return 0;
    if (found == EACCES) error = EACCES;
  }
  return error;
}

int agent(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) throw Error("agent: expected HOST COMMAND...");
  const char* directory = std::getenv("ESPALIER_DIRECTORY");
  if (directory == nullptr) throw Error("agent: started outside a generation");
  std::ifstream owners(std::filesystem::path(directory) / "owners");
  std::string node;
  JobId job = 0;
  int gpus = 0;
  while (owners >> node >> job >> gpus && node != arguments[0]) {
  }
  if (!owners) throw Error("agent: no allocation of this job has node " + arguments[0]);
  // mpirun means the words for a shell on the other side.
  std::string command;
  for (std::size_t i = 1; i < arguments.size(); ++i) command += (i > 1 ? " " : "") + arguments[i];
  const LostTeller teller;
  const pid_t parent = ::getppid();
  const int code =
      tether(step_command(job, node, gpus, std::getenv("ESPALIER_CPU_BIND") != nullptr, {"/bin/sh", "-c", command}));
  if (code != 0 && ::getppid() == parent) teller.node(node, code);
  return code;
}

int shield(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Error("shield: expected a command");
  const char* directory = std::getenv("ESPALIER_DIRECTORY");
  const char* anchor = std::getenv("ESPALIER_ANCHOR");
  const char* job = std::getenv("SLURM_JOB_ID");
  wire::Descriptor used;
  if (directory != nullptr) {
    // A step that Slurm starts late must not make again what the keepers of a job whose launcher is gone have removed.
    const auto [host, port] = launcher_address();
    wire::Client::tcp(wire::Service::launcher, host, port, {::getuid()}, std::chrono::seconds(10));
    used = use_generation_directory(directory);
    if (used) ::fcntl(used.get(), F_SETFD, 0);  // for as long as orted lives
  }
  if (anchor != nullptr && job != nullptr && std::strcmp(anchor, job) != 0) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
  }
  return replace_by(arguments);
}

}  // namespace espalier::launcher
