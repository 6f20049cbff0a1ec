// What the ranks of a generation have said, and whether they may. Steps, profiles and heartbeats are noted; other
// messages wait until the suite asks for them. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "planner/wire/messages.hpp"

namespace espalier::launcher::conform {

class Record {
 public:
  // Takes the frames of this rank. A profile must fit the plan and the model.
  void note(int rank, std::deque<wire::Frame>& frames, const Plan& plan, const ModelShape& model);
  void breaks(const std::string& why) { broken_ = why; }  // somebody has said what no worker may

  // Messages of a rank that wait, and that no note is made of.
  bool waits(int rank) const;
  bool has_said(int rank, const std::string& type) const;  // one of this type waits
  const wire::Frame& next(int rank) const { return inbox_.at(rank).front(); }
  wire::Frame take(int rank);

  std::int64_t step() const { return step_; }  // of rank 0's newest message `step`; -1: there is none
  void forget_steps() { step_ = -1; }
  void trains_from(std::int64_t step) { step_ = step; }
  int profiles() const { return profiles_; }
  int heartbeats(int rank) const;
  const std::string& failed() const { return failed_; }  // the message of the last `failed`
  const std::string& broken() const { return broken_; }  // what no worker may say; empty: all was well

 private:
  void note(int rank, const wire::Frame& frame, const Plan& plan, const ModelShape& model);

  std::map<int, std::deque<wire::Frame>> inbox_;
  std::map<int, int> heartbeats_;
  std::string failed_, broken_;
  std::int64_t step_ = -1;
  int profiles_ = 0;
};

}  // namespace espalier::launcher::conform
