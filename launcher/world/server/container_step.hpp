// The Slurm step that holds the container of this node's ranks. pyxis makes the container when the step starts, and
// removes it when the step ends. Its one process waits.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/awake_timer.hpp"
#include "launcher/process/longer_waits.hpp"
#include "launcher/world/server/found_container.hpp"
#include "launcher/world/server/step_process.hpp"

namespace espalier::launcher {

class ContainerStep {
 public:
  struct Callbacks {
    std::function<void()> ready;  // ranks can enter; again when the container has been replaced
    // The container could not be made, or not within kImageSeconds. Time in which Slurm has the job suspended does not
    // count. Not called once the container was ready: a step that ends later is started again, and running ranks keep
    // the container they are in.
    std::function<void(const std::string& why)> failed;
  };
  // `command`: runs container_program() as a step of this node. Throws Error.
  ContainerStep(wire::Loop& loop, std::vector<std::string> command, Callbacks callbacks);
  ~ContainerStep();  // ends the step; waits for that at most 5 s
  ContainerStep(const ContainerStep&) = delete;
  ContainerStep& operator=(const ContainerStep&) = delete;

  // Ranks can enter. After it was true it is false while the container is replaced: its files are removed.
  bool ready() const { return ready_; }
  // The functions below may be called once ready() was true.
  const Entry& entry() const { return found_->entry(); }
  // The environment in the container of a rank whose environment outside would be `own` (environment_inside()).
  std::vector<std::string> environment(const std::vector<std::string>& own) const;
  // The numbers that this process's user and group have inside the container.
  uid_t uid() const { return found_->uid(); }
  gid_t gid() const { return found_->gid(); }

 private:
  void start();
  void find(pid_t pid, int tries);
  void said(const std::string& text);
  void ended(int status);
  void start_again();

  wire::Loop& loop_;
  const std::vector<std::string> command_;
  Callbacks callbacks_;
  const std::vector<std::string> given_;  // environment of the step's process
  std::optional<FoundContainer> found_;   // the newest that was ready
  bool ready_ = false;                    // the running step's container
  std::string last_words_, problem_;
  std::unique_ptr<StepProcess> process_;
  LongerWaits waits_;  // before the next step
  wire::Watch finds_;
  AwakeTimer limit_;  // of the container that is being made
};

}  // namespace espalier::launcher
