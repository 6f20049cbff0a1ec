// Slurm from the event loop without ever waiting for it: one thread does the calls, results come back as callbacks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "planner/daemon/slurm.hpp"
#include "planner/wire/loop.hpp"

namespace espalier {

class SlurmAgent {
 public:
  using Snapshot = std::variant<SlurmSnapshot, std::string>;  // or why there is none
  using OnSnapshot = std::function<void(Snapshot)>;
  using Names = std::variant<SlurmNames, std::string>;  // or why there are none
  using OnNames = std::function<void(const Names&)>;
  using OnDone = std::function<void(const std::string& error)>;  // empty: done

  // `slurm` is used from the agent's thread only, which also destroys it.
  SlurmAgent(wire::Loop& loop, std::unique_ptr<Slurm> slurm);
  SlurmAgent(const SlurmAgent&) = delete;
  SlurmAgent& operator=(const SlurmAgent&) = delete;
  ~SlurmAgent();  // as stop()

  // Callbacks run on the loop, in the order of the requests.
  void snapshot(OnSnapshot done);
  void names(OnNames done);
  void kill(JobId job, OnDone done);
  void prolong(JobId job, int minutes, OnDone done);

  // No more callbacks. False: a call to Slurm did not return within 2 s, its thread is left to the process's end.
  bool stop();

 private:
  struct Shared;
  void request(std::function<std::function<void()>(Slurm&)> work);
  void act(std::function<void(Slurm&)> act, OnDone done);
  std::shared_ptr<Shared> shared_;
  wire::Watch watch_;
  bool stopped_ = false, ended_ = false;
};

}  // namespace espalier
