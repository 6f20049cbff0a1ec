// The signals that a launcher gets, and its heartbeat. Runs on the loop.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class JobSignals {
 public:
  struct Callbacks {
    std::function<void(int number)> pass_on;  // the program's business, e.g. sbatch --signal=USR1@300
    std::function<void(const std::string& name)> terminate;
    std::function<void()> beat;  // once every heartbeat interval
  };
  JobSignals(wire::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

  void watch(std::chrono::milliseconds heartbeat);

 private:
  wire::Loop& loop_;
  Callbacks callbacks_;
  std::vector<wire::Watch> watches_;
};

}  // namespace espalier::launcher
