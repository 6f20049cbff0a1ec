// Where the conformance suite plays a launcher: its event loop, the socket that workers log in at, the rank server that
// starts them, and the vault that keeps their memory. No Slurm is asked.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/conform/line.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/node/vault.hpp"
#include "launcher/world/rank_servers.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/capabilities.hpp"

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

class Stage {
 public:
  // What a generation on the stage is told.
  struct Callbacks {
    std::function<void(std::unique_ptr<Line>, const wire::WorkerHello&)> adopt;  // its worker has said hello; may throw
    std::function<void()> came;                                                  // a frame has come on a line
    std::function<void(const std::string& why)> broken;  // a worker that no generation knows broke the protocol
  };
  explicit Stage(Settings settings);  // throws Error
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Runs the loop until `done` returns true, at most `seconds`. Returns what it returned last.
  bool until(const std::function<bool()>& done, double seconds);
  void pass(double seconds);  // runs the loop for so long

  const Settings& settings() const { return settings_; }
  double patience() const { return settings_.patience; }
  double start_limit() const { return start_limit_; }
  // GPUs that a replica may have, as the program's hello says; what it prefers is first.
  const std::vector<int>& units() const { return units_; }
  bool replans_in_place() const { return in_place_; }  // the program says so
  void learn(const wire::WorkerHello& worker);

  // A number that no generation of this suite had before.
  int fresh_number() { return ++last_number_; }
  // From now on the generation of this number hears of its workers, until it leaves. `greeting`: for all lines to come.
  void enter(int number, const Line::Greeting& greeting, Callbacks callbacks);
  void leave(int number) { generations_.erase(number); }
  // Starts its ranks. `variables`: "NAME=value", instead of those that a launcher sets. Throws Error.
  std::unique_ptr<Ranks> run(int number, const std::vector<GpuId>& gpus, const std::vector<std::string>& program,
                             const std::vector<std::string>& variables, RanksCallbacks callbacks);
  void forget_state();                        // a new, empty vault
  int connections() const { return count_; }  // that workers have made so far

 private:
  void accept();
  std::vector<std::string> environment(int generation, int port) const;

  Settings settings_;
  wire::Loop loop_;
  const std::string token_ = wire::fresh_nonce(), vault_base_ = "espalier-conform-" + token_.substr(0, 16);
  wire::Door door_;
  std::unique_ptr<Directory> directory_;
  wire::Descriptor listener_;
  int port_ = 0;
  wire::Watch connections_;
  std::unique_ptr<wire::Listener> rank_listener_;
  std::unique_ptr<RankServers> servers_;
  std::unique_ptr<Vault> vault_;
  std::vector<std::unique_ptr<Line>> lines_;  // of workers that have not said hello
  std::map<int, Callbacks> generations_;      // by number
  Line::Greeting greeting_;                   // for lines to come
  int last_number_ = 0, count_ = 0;
  std::vector<int> units_{1};
  bool in_place_ = false;
  double start_limit_;
};

}  // namespace espalier::launcher::conform
