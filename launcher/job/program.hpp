// What the user's program has told of itself, in its description and in the hellos of its workers, and whether it
// speaks the worker protocol at all.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "launcher/process/awake_timer.hpp"
#include "planner/wire/capabilities.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Program {
 public:
  struct Callbacks {
    std::function<bool()> planned;                            // generation 0 has its plan already
    std::function<void()> introduced;                         // the first worker has said hello
    std::function<bool()> bitwise_demanded;                   // the user has asked for accuracy=bitwise
    std::function<void(const std::string& why)> contradicts;  // its hello is not what the plan was made for
  };
  Program(wire::Loop& loop, const wire::Config& config, Callbacks callbacks, AwakeLooks looks = {});

  void described(const wire::Description& description) { told_ = description; }
  const wire::Description& told() const { return told_; }
  // The ranks of generation 0 start. If none of them says hello in time, the job runs without elasticity. Time in
  // which Slurm has the job suspended does not count.
  void await_hello();
  void stop_waiting() { limit_.stop(); }
  // A worker is about to say hello.
  void claim(const wire::Capabilities& can) {
    start_seconds_ = std::max(start_seconds_, can.start_seconds);
    takes_lists_ = can.lists;
  }
  // A worker has said hello. `of_current`: it is one of the running generation.
  void hello(const wire::Hello& hello, bool of_current);
  // Generation 0 starts once more: its first hello counts anew.
  void start_anew() { speaks_ = false; }
  // Called after a step while no generation starts. `started`: the last generation that was started, which may have
  // been given up. Whether spares are to be started now: true once for each.
  bool wants_spares(int started);

  bool speaks_protocol() const { return speaks_; }
  bool elastic() const { return elastic_; }
  const ModelShape& model() const { return told_.model; }
  const ParallelLimits& parallel() const { return told_.parallel; }
  // It is data-parallel only, and promises no bit: its job's accuracy is `relaxed`.
  bool data_only() const;
  bool takes_lists() const { return takes_lists_; }     // its workers run lists that come with a `switch`
  int start_seconds() const { return start_seconds_; }  // the program's own limit; 0: none
  HandoffMethod handoff() const { return told_.handoff; }
  bool restarts() const { return told_.handoff == HandoffMethod::checkpoint; }
  std::int64_t total_steps() const { return told_.total_steps; }

 private:
  const wire::Config& config_;
  Callbacks callbacks_;
  wire::Description told_;
  int start_seconds_ = 0;
  bool speaks_ = false, elastic_ = true, takes_lists_ = false;
  int spares_after_ = -1;  // the last generation after whose start spares were asked for
  AwakeTimer limit_;
};

}  // namespace espalier::launcher
