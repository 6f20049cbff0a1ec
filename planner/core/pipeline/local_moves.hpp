// Changes of one rank's order that keep it complete and in order. Pure.
#pragma once

#include "planner/core/pipeline/order.hpp"

namespace espalier::pipeline {

// The places between which the step at `at` may move without passing another of its own or breaking F before I before
// W.
struct Reach {
  int first = 0, last = 0;
};
Reach reach(const RankOrder& order, int at);

// Moves the step at `from` to the place `to`; the steps between move up by one.
void move_step(RankOrder& order, int from, int to);

// B becomes I and W, W right behind.
void split_backward(RankOrder& order, int at);
// I and its W become B, in the place of I or, with `late`, of W. False when something keeps them apart: another I of
// the chunk whose W would change.
bool join_backward(RankOrder& order, int at, bool late);

}  // namespace espalier::pipeline
