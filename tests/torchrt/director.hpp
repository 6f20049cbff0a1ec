// Plays the launcher to a training's ranks: starts generations, and does one act of the script after the other.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/node/vault.hpp"
#include "planner/wire/descriptor.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/loop.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/server.hpp"
#include "tests/torchrt/director_generation.hpp"
#include "tests/torchrt/director_gpus.hpp"
#include "tests/torchrt/play_script.hpp"

namespace espalier::test {

class Director {
 public:
  Director(const Json& script, std::string summary, std::vector<std::string> command);
  int run();  // returns the exit code

 private:
  using Clock = std::chrono::steady_clock;

  void fail(const std::string& why);
  void start(Generation& generation, int number, const Plan& plan);
  std::string vault_base() const { return "espalier-vault-" + token_.substr(0, 8); }
  void reap();
  void greet(wire::ConnectionPtr connection);
  double milliseconds_since(Clock::time_point start) const;
  void hear(int number, int rank, const wire::Frame& frame);
  void commit_first();
  void on_profile(const Generation& generation, int rank, const wire::Frame& frame);
  void on_step(const wire::Step& step);

  // One generation hands its state to the next, or goes on in its place (director_handoffs.cpp).
  void ask_to_switch(const Plan& plan, int generation, const std::string& lists = "");
  void leave();
  void on_next_ready();
  void switch_over(int generation);
  bool expects_to_stay() const;
  void on_standing();
  void on_switched();
  void go_on_in_place();
  void restart();
  void on_loaded();
  void succeed();
  void failed(const wire::Failed& failed);
  void give_up(bool stands);

  // Ranks are lost, and the next generation takes the state that is left (director_losses.cpp).
  void lose();
  void strike();
  void recover();
  int state_left() const;
  void keep(bool settled);
  void on_recovered();
  bool dying() const { return next_act_ < acts_.size() && acts_[next_act_].dies; }
  void try_again();

  wire::Loop loop_;
  std::string summary_path_;
  std::vector<std::string> command_;
  std::vector<Act> acts_;
  std::size_t next_act_ = 0;
  std::vector<std::string> problems_;              // why ranks of the old generation stay
  const std::string token_ = wire::fresh_nonce();  // keeps plays on one machine apart
  std::unique_ptr<wire::Listener> listener_;
  std::vector<wire::ConnectionPtr> waiting_;
  Generation current_, next_;
  int last_number_ = 0;
  std::int64_t told_step_ = 0;           // the last one
  std::set<std::int64_t> progressed_;    // told steps after which a worker told that it gets on with other work
  std::set<std::pair<int, int>> heard_;  // generations and ranks that sent a heartbeat
  std::set<pid_t> left_;
  bool finished_ = false;
  bool awaiting_ = false;  // waits for answers to a switch
  std::size_t standing_ = 0;
  bool giving_ = false;   // the next generation loads meanwhile
  bool leaving_ = false;  // the switch ends the play
  bool recovering_ = false;
  std::vector<wire::Assign::Source::Earlier> earlier_;
  DirectorGpus gpus_;
  Accuracy accuracy_ = Accuracy::bitwise;
  std::map<std::string, std::unique_ptr<launcher::Vault>> vaults_;  // by node name, as in plans
  wire::Descriptor silent_;  // where a vault seems to listen that does not answer
  wire::Watch recovery_, late_;
  std::int64_t boundary_ = 0;
  Clock::time_point started_, stepped_, switch_sent_, stood_, lost_at_;
  double ready_ms_ = 0, switched_ms_ = 0, stand_ms_ = 0;
  Json summary_ = {{"acts", Json::array()}, {"profiles", Json::array()}};
  std::string failure_;
};

}  // namespace espalier::test
