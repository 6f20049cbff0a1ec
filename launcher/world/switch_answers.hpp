// What the workers of a generation answer when they are asked for a boundary. Each switch is answered once by every
// worker, also after a resume; answers to a switch that was given up do not count. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class SwitchAnswers {
 public:
  explicit SwitchAnswers(int ranks) : ranks_(ranks) {}

  // These ranks are asked for a boundary, and each answers from now on for this switch.
  void ask(const std::vector<int>& ranks);
  // The latest switch is given up. A rank that has not answered it yet still does, and that ends no wait.
  void give_up() { given_up_ = true; }
  // A rank answers. True: all ranks have, to the latest switch, which was not given up. Throws Error when nobody asked,
  // or another rank stands at another boundary.
  bool stands(int rank, const wire::Standing& standing);
  bool switched(int rank, const wire::Switched& switched);

  std::int64_t boundary() const { return boundary_; }  // the step after which the ranks stand; 0: none has answered
  // Why the state of a rank cannot be had; empty: it can, of all.
  std::string problem() const;

 private:
  struct Answer {
    int unanswered = 0;  // switches
    bool stands = false, switched = false;
    std::string problem = {};  // with the latest switch
  };
  Answer& answer_of(int rank);
  void take_boundary(std::int64_t step);
  bool all(bool Answer::*flag) const;

  const int ranks_;
  std::int64_t boundary_ = 0;
  bool given_up_ = false;          // the latest switch
  std::map<int, Answer> answers_;  // by rank
};

}  // namespace espalier::launcher
