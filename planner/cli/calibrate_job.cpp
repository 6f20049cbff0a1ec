#include "planner/cli/calibrate_job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/slurm/kill.h"
#include "planner/wire/descriptor.hpp"

namespace espalier::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 64 << 20;
constexpr std::chrono::seconds kGrace(10);  // for salloc to give the nodes back

// Inside the allocation. $1: how ranks are started, or nothing; $2: ranks of a node; then the ranks'
// command. Slurm may have PMIx and yet fail to start ranks with it, so it is tried first.
constexpr const char* kStartRanks =
    "how=$1 gpus=$2; shift 2\n"
    "ranks=\"srun --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 --ntasks-per-node=$gpus\"\n"
    "if [ \"$how\" = pmix ] || [ -z \"$how\" ] && srun --mpi=list 2>&1 | grep -q pmix && tried=$($ranks true 2>&1)\n"
    "then exec $ranks \"$@\"; fi\n"
    "if [ \"$how\" = mpirun ] || [ -z \"$how\" ] && command -v mpirun > /dev/null; then\n"
    "  exec mpirun --oversubscribe --bind-to none --map-by \"ppr:$gpus:node\" \"$@\"\n"
    "fi\n"
    "echo \"$tried\" >&2\n"
    "echo \"espalier: calibrate: ranks cannot be started${how:+ by $how}: srun --mpi=pmix does not work, or there is no"
    " mpirun here; install one of them, and see --mpi\" >&2\n"
    "exit 127\n";

// MPI as the launcher sets it up (launcher/world/server/mpi_environment.cpp).
void set_environment(const CalibrateJob& job) {
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  ::setenv("OMPI_MCA_smsc", "^cma,knem,xpmem", 1);
  ::setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  if (!job.network.empty()) {
    ::setenv("OMPI_MCA_btl_tcp_if_include", job.network.c_str(), 1);
    ::setenv("OMPI_MCA_oob_tcp_if_include", job.network.c_str(), 1);
  }
  if (::geteuid() != 0) return;
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);  // the administrator's own choice
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

struct Pipe {
  wire::Descriptor read, write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(std::string("pipe: ") + std::strerror(errno));
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

// Blocks the signals that end this program, so that they can be read and the job be cancelled.
class EndingSignals {
 public:
  EndingSignals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, number);
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
    descriptor_.reset(::signalfd(-1, &set_, SFD_CLOEXEC));
  }
  ~EndingSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  int descriptor() const { return descriptor_.get(); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t set_{}, before_{};
  wire::Descriptor descriptor_;
};

// salloc, in a session of its own. It ends with this process.
class Salloc {
 public:
  Salloc(const CalibrateJob& job, const EndingSignals& signals) {
    const auto command = salloc_command(job);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw Error(std::string("salloc: cannot be started: ") + std::strerror(errno));
    if (pid_ > 0) {
      out_.write.reset();
      errors_.write.reset();
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::setsid();
    ::sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out_.write.get(), STDOUT_FILENO);
    ::dup2(errors_.write.get(), STDERR_FILENO);
    set_environment(job);
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "salloc: cannot be executed: %s\n", std::strerror(errno));
    ::_exit(127);
  }
  // Gives the nodes back, whatever state this is in.
  ~Salloc() {
    if (ended_) return;
    ::kill(pid_, SIGTERM);
    const auto until = Clock::now() + kGrace;
    while (!reap() && Clock::now() < until) ::usleep(20'000);
    if (!ended_) ::kill(-pid_, SIGKILL);
    if (const auto id = job_id()) espalier_slurm_kill_job(id, SIGKILL, 0);
    if (!ended_) ::waitpid(pid_, &status_, 0);
  }
  Salloc(const Salloc&) = delete;
  Salloc& operator=(const Salloc&) = delete;

  // Reads until salloc has ended. Throws Error at `until` and at a signal.
  void watch(Clock::time_point until, int signals) {
    std::array<pollfd, 3> watched{
        {{signals, POLLIN, 0}, {out_.read.get(), POLLIN, 0}, {errors_.read.get(), POLLIN, 0}}};
    while (watched[1].fd >= 0 || watched[2].fd >= 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) throw Error("the job did not end in time and was cancelled; " + told());
      ::poll(watched.data(), watched.size(), static_cast<int>(std::min<long>(left, 1000)));
      if (watched[0].revents != 0) throw Error("cancelled by a signal; the job was given back");
      take(watched[1], output);
      take(watched[2], errors);
      if (output.size() + errors.size() > kMostOutput) throw Error("the ranks print without end; " + told());
    }
    while (!reap()) {
      if (Clock::now() > until) throw Error("salloc does not end; " + told());
      ::usleep(10'000);
    }
  }

  bool failed() const { return !WIFEXITED(status_) || WEXITSTATUS(status_) != 0; }
  std::uint32_t job_id() const {
    constexpr const char* kGranted = "Granted job allocation ";
    const auto at = errors.find(kGranted);
    return at == std::string::npos
               ? 0
               : static_cast<std::uint32_t>(std::strtoul(errors.c_str() + at + std::strlen(kGranted), nullptr, 10));
  }
  std::string told() const {
    constexpr std::size_t kShown = 2000;
    const std::string text = errors.size() > kShown ? "... " + errors.substr(errors.size() - kShown) : errors;
    return text.empty() ? "salloc and the ranks said nothing" : "salloc and the ranks said:\n" + text;
  }

  std::string output, errors;

 private:
  bool reap() {
    ended_ = ended_ || ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  static void take(pollfd& watched, std::string& into) {
    if (watched.fd < 0 || watched.revents == 0) return;
    char buffer[65536];
    const ssize_t count = ::read(watched.fd, buffer, sizeof buffer);
    if (count > 0) into.append(buffer, static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR) watched.fd = -1;
  }

  Pipe out_, errors_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace

std::vector<std::string> salloc_command(const CalibrateJob& job) {
  const std::string gpus = std::to_string(job.gpus);
  std::vector<std::string> command{"salloc",
                                   "--job-name=espalier-calibrate",
                                   "--nodes=" + std::to_string(job.nodes.size()),
                                   "--nodelist=" + fold_hosts(job.nodes),
                                   "--ntasks-per-node=" + gpus,
                                   "--gres=gpu:" + gpus,
                                   "--exclusive",
                                   "--mem=0",
                                   "--time=" + std::to_string(job.minutes),
                                   "--immediate=" + std::to_string(job.wait_seconds)};
  if (!job.partition.empty()) command.push_back("--partition=" + job.partition);
  command.insert(command.end(), job.extra.begin(), job.extra.end());
  for (const std::string& word :
       {std::string("bash"), std::string("-c"), std::string(kStartRanks), std::string("calibrate"), job.mpi, gpus,
        job.program, std::string("--calibrate"), to_text(job.request)})
    command.push_back(word);
  return command;
}

ProbeReport run_calibrate_job(const CalibrateJob& job) {
  const EndingSignals signals;
  Salloc salloc(job, signals);
  // salloc gives up by itself after wait_seconds, and Slurm ends the job after its minutes.
  salloc.watch(Clock::now() + std::chrono::seconds(job.wait_seconds + 60 * job.minutes + 60), signals.descriptor());
  if (salloc.job_id() == 0)
    throw Error("Slurm gave no nodes within " + std::to_string(job.wait_seconds) + " s (" + fold_hosts(job.nodes) +
                ", whole nodes); wait longer with --wait, or name idle nodes with --nodes; " + salloc.told());
  if (salloc.failed()) throw Error("job " + std::to_string(salloc.job_id()) + " failed; " + salloc.told());
  ProbeReport report = probe_report(salloc.output);
  if (!report.ended) throw Error("job " + std::to_string(salloc.job_id()) + " ended early; " + salloc.told());
  return report;
}

}  // namespace espalier::cli
