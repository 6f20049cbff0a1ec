#include "launcher/world/server/container_step.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
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
constexpr std::size_t kLongestWords = 4096;

}  // namespace

ContainerStep::ContainerStep(wire::Loop& loop, std::vector<std::string> command, Callbacks callbacks)
    : loop_(loop),
      command_(std::move(command)),
      callbacks_(std::move(callbacks)),
      given_(clean_environment({})),
      waits_(loop, kAgain, kLongestAgain),
      limit_(loop) {
  start();
}

// The step ends with its process. Before there is one, SIGTERM makes srun end the step; a killed srun would leave it
// behind. srun alone would not do: it cannot end a step of a job that Slurm is ending.
ContainerStep::~ContainerStep() {
  if (!process_ || !process_->running()) return;
  if (!found_ || !found_->kill()) process_->terminate();
  siginfo_t info{};
  for (int i = 0; i < kEnds && info.si_pid == 0; ++i) {
    if (::waitid(P_PID, static_cast<id_t>(process_->pid()), &info, WEXITED | WNOWAIT | WNOHANG) != 0) return;
    if (info.si_pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::vector<std::string> ContainerStep::environment(const std::vector<std::string>& own) const {
  auto all = environment_inside(own, found_->environment(), given_);
  all.push_back("ESPALIER_UID=" + std::to_string(::getuid()));
  // Of PMIx's ways to prove who one is, this one names the user as he is called inside (PmixNamespace::user).
  all.push_back("PMIX_MCA_psec=native");
  return all;
}

void ContainerStep::start() {
  ready_ = false;
  problem_.clear();
  StepProcess::Callbacks on;
  on.line = [this](const std::string& line) {
    if (const long pid = container_pid(line); pid > 0 && !ready_) find(static_cast<pid_t>(pid), kFinds);
  };
  on.said = [this](const std::string& text) { said(text); };
  on.ended = [this](int status) { ended(status); };
  process_ = std::make_unique<StepProcess>(loop_, command_, given_, std::move(on));
  limit_.start(std::chrono::seconds(kImageSeconds), [this] {
    problem_ = "it was not there within " + std::to_string(kImageSeconds) + " s";
    process_->terminate();
  });
}

// Right after it has printed, the process executes another program, and then shows no environment for a moment.
void ContainerStep::find(pid_t pid, int tries) {
  try {
    found_ = FoundContainer(pid);
  } catch (const Error& error) {
    if (tries > 1) {
      finds_ = loop_.after(kFind, [this, pid, tries] { find(pid, tries - 1); });
      return;
    }
    problem_ = error.what();
    return process_->terminate();
  }
  limit_.stop();
  ready_ = true;
  waits_.begin_over();
  callbacks_.ready();
}

// What Slurm and pyxis tell while the container is made is for the user, as in any step.
void ContainerStep::said(const std::string& text) {
  if (ready_) return;
  last_words_ = text.substr(0, kLongestWords);
  while (last_words_.ends_with('\n')) last_words_.pop_back();
  std::fputs(text.c_str(), stderr);
}

void ContainerStep::ended(int status) {
  finds_.reset();
  limit_.stop();
  ready_ = false;
  if (!found_) {
    const std::string& why = problem_.empty() ? last_words_ : problem_;
    return callbacks_.failed("the step of its container ended with code " + std::to_string(exit_code(status)) +
                             (why.empty() ? "" : " (" + why + ")"));
  }
  std::fprintf(stderr, "espalier: ranks: the step of a container ended with code %d; another one is started in %ld s\n",
               exit_code(status), static_cast<long>(waits_.next().count() / 1000));
  start_again();
}

void ContainerStep::start_again() {
  waits_.wait([this] {
    try {
      start();
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: ranks: %s; the container's step is tried again\n", error.what());
      start_again();
    }
  });
}

}  // namespace espalier::launcher
