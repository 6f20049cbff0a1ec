// What the ranks of a generation have said, and whether the worker protocol allows it. Steps, profiles, heartbeats and
// `failed` are noted, a `notice` is passed over, and other messages wait until the suite asks for them. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "planner/wire/messages.hpp"

namespace espalier::launcher::conform {

class Record {
 public:
  // Takes the frames of `rank`, and leaves `frames` empty. A message that the protocol forbids is kept as broken().
  // `plan` and `model`: a profile must fit them.
  void note(int rank, std::deque<wire::Frame>& frames, const Plan& plan, const ModelShape& model);
  // The generation cannot go on, for `why`: for example, a worker was refused or the ranks were lost. The first reason
  // stays.
  void breaks(const std::string& why) {
    if (broken_.empty()) broken_ = why;
  }

  bool waits(int rank) const;                              // a message of `rank` waits
  bool has_said(int rank, const std::string& type) const;  // one of this type waits
  // The oldest message of `rank` that waits; take() removes it. Only while waits(rank).
  const wire::Frame& next(int rank) const { return inbox_.at(rank).front(); }
  wire::Frame take(int rank);

  std::int64_t step() const { return step_; }  // of rank 0's newest message `step`; -1: there is none
  void forget_steps() { step_ = -1; }
  void trains_from(std::int64_t step) { step_ = step; }
  int profiles() const { return profiles_; }
  int heartbeats(int rank) const;
  const std::string& failed() const { return failed_; }  // the message of the last `failed`
  // Why the generation cannot go on: the first message that the protocol forbids, or the first breaks(). Empty: it can.
  const std::string& broken() const { return broken_; }

 private:
  void note(int rank, const wire::Frame& frame, const Plan& plan, const ModelShape& model);

  std::map<int, std::deque<wire::Frame>> inbox_;
  std::map<int, int> heartbeats_;
  std::string failed_, broken_;
  std::int64_t step_ = -1;
  int profiles_ = 0;
};

}  // namespace espalier::launcher::conform
