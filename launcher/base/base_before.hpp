// The base that training was on before the present one. Both are held for some steps, until what a loss needs is on the
// present one. Then the base before is given back. Runs on the loop.
#pragma once

#include <functional>

#include "planner/core/job.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class BaseBefore {
 public:
  BaseBefore(wire::Loop& loop, std::function<void(JobId)> give_back) : loop_(loop), give_back_(std::move(give_back)) {}

  // Training has left this base. It is given back after `longest` at the latest.
  void hold(JobId base, wire::Loop::Milliseconds longest);
  // Training has done a step on the base after it. `settled`: what a loss needs is on that base, and the plan has left
  // this one.
  void stepped(bool settled);
  // A base has ended. This one, if it is it, is held no longer.
  void ended(JobId id);
  void stop() { limit_.reset(); }  // for the end of the job, which gives all bases back

  JobId id() const { return id_; }  // 0: there is none

 private:
  void give_back();

  wire::Loop& loop_;
  const std::function<void(JobId)> give_back_;
  JobId id_ = 0;
  int steps_ = 0;  // since training has left it
  wire::Watch limit_;
};

}  // namespace espalier::launcher
