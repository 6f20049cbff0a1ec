// Where the conformance suite plays a launcher: its event loop, the door that workers log in at, the rank server that
// starts them, and the vault that keeps their memory. No Slurm is asked.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/conform/rank_host.hpp"
#include "launcher/conform/stage_door.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/node/vault.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher::conform {

// The worker did what it must not, or not what it must.
class Failure : public Error {
 public:
  using Error::Error;
};
// This program cannot play this case. The text says why.
class Skip : public Error {
 public:
  using Error::Error;
};

struct Settings {
  std::vector<std::string> program;
  std::string steps_option;  // what the number of steps follows on the program's command line; empty: there is none
  double patience = 60;      // seconds: the longest that a worker may take for anything but its start
  double heartbeat = 0.5;    // seconds
  std::string launcher;      // path of espalier-launch; espalier-ranks is beside it
};

// What the program's hello has told of it.
struct ProgramFacts {
  double start_seconds = 0;   // the longest from the start to `ready`
  std::vector<int> units{1};  // GPUs that a replica may have; what it prefers is first
  bool in_place = false;      // it can go on with another plan in the same processes
};

class Stage {
 public:
  explicit Stage(Settings settings);  // throws Error
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Runs the loop until `done` returns true, at most `seconds`. Returns what it returned last.
  bool until(const std::function<bool()>& done, double seconds);
  void pass(double seconds);  // runs the loop for so long

  const Settings& settings() const { return settings_; }
  double patience() const { return settings_.patience; }
  const ProgramFacts& program() const { return program_; }
  void learn(const wire::WorkerHello& worker);

  // A number that no generation of this suite had before.
  int fresh_number() { return ++last_number_; }
  StageDoor& door() { return door_; }
  // Starts the ranks of the generation of this number. `variables`: "NAME=value", instead of those that a launcher
  // sets. Throws Error.
  std::unique_ptr<Ranks> run(int number, const std::vector<GpuId>& gpus, const std::vector<std::string>& program,
                             const std::vector<std::string>& variables, RanksCallbacks callbacks);
  void forget_state();  // a new, empty vault

 private:
  std::vector<std::string> environment(int generation, int port) const;

  const Settings settings_;
  wire::Loop loop_;
  const std::string token_ = wire::fresh_nonce(), vault_base_ = "espalier-conform-" + token_.substr(0, 16);
  Directory directory_;
  StageDoor door_;
  RankHost host_;
  std::unique_ptr<Vault> vault_;
  ProgramFacts program_;
  int last_number_ = 0;
};

}  // namespace espalier::launcher::conform
