#include "tests/torchrt/director_generation.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/torchrt/process_marks.hpp"
#include "torchrt/handoff/state_address.hpp"

namespace espalier::test {

namespace {

using Clock = std::chrono::steady_clock;

bool runs(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("State:", 0) == 0) return line.find('Z') == std::string::npos && line.find('X') == std::string::npos;
  return false;
}

}  // namespace

std::string Generation::launch(const std::vector<std::string>& command,
                               const std::map<std::string, std::string>& environment) {
  // Each mpirun has a folder of its own: an mpirun that ends removes a shared folder while the
  // next one makes it.
  std::string own = (std::filesystem::temp_directory_path() / "generation-XXXXXX").string();
  if (::mkdtemp(own.data()) == nullptr) return own + ": cannot be made";
  mpirun = ::fork();
  if (mpirun != 0) return "";
  ::setenv("OMPI_MCA_orte_tmpdir_base", own.c_str(), 1);
  ::setenv("OMPI_MCA_btl_vader_backing_directory", own.c_str(), 1);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("ESPALIER_HEARTBEAT", "0.1", 1);
  ::setenv("ESPALIER_GENERATION", std::to_string(number).c_str(), 1);
  std::vector<std::string> arguments = {
      "mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(plan.gpu_count())};
  arguments.insert(arguments.end(), command.begin(), command.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp("mpirun", pointers.data());
  ::_exit(127);
}

void Generation::kill() {
  if (mpirun > 0) ::kill(mpirun, SIGKILL);
  mpirun = -1;
  for (auto& [rank, connection] : ranks) connection->close();
  ranks.clear();
}

void Generation::take(const wire::Loaded& loaded) {
  adopted += loaded.bytes_adopted;
  copied += loaded.bytes_copied;
  sent += loaded.bytes_sent;
  sent_early += loaded.bytes_sent_early;
  for (const auto& [phase, ms] : loaded.phases_ms) phases_ms[phase] = std::max(phases_ms[phase], ms);
  origins.insert({loaded.step, loaded.from});
}

int Generation::listening(const std::string& token) const {
  std::set<std::string> names;
  for (const auto& [rank, process] : processes) names.insert("@" + torchrt::state_address(token, number, rank));
  std::ifstream sockets("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream fields(line);
    std::string slot, references, protocol, flags, type, state, inode, name;
    fields >> slot >> references >> protocol >> flags >> type >> state >> inode >> name;
    if (flags == "00010000" && names.count(name) != 0) ++count;  // __SO_ACCEPTCON
  }
  return count;
}

int Generation::living() const {
  int count = 0;
  for (const auto& [rank, process] : processes) count += runs(process) ? 1 : 0;
  return count;
}

void Generation::starve(bool begin) const {
  for (const auto& [rank, process] : processes) {
    rlimit files{};
    ::prlimit(process, RLIMIT_NOFILE, nullptr, &files);
    files.rlim_cur = begin ? 3 : files.rlim_max;
    ::prlimit(process, RLIMIT_NOFILE, &files, nullptr);
  }
}

bool Generation::catch_moment(const Act& act) const {
  std::map<int, ProcessMarks> marks;
  for (const auto& [rank, process] : processes) marks.emplace(rank, ProcessMarks(process, model.layers + 2));
  for (int look = 0; look < 20; ++look) {
    for (auto& [rank, of_rank] : marks) of_rank.look();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const auto until = Clock::now() + std::chrono::seconds(30); Clock::now() < until;) {
    if (act.torn && !marks.at(act.kill.front()).look().count(-1)) continue;
    for (const auto& [rank, process] : processes) ::kill(process, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::set<std::int64_t> steps;
    for (auto& [rank, of_rank] : marks) steps.merge(of_rank.look());
    if (act.torn ? marks.at(act.kill.front()).look().count(-1) != 0 : steps.size() == 1 && *steps.begin() >= 0)
      return true;
    for (const auto& [rank, process] : processes) ::kill(process, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(act.torn ? 0 : 7));
  }
  return false;
}

}  // namespace espalier::test
