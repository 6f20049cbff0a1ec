// The cases of the conformance suite, by the part of the protocol that they play.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/conform/generation.hpp"

namespace espalier::launcher::conform {

struct Case {
  std::string name;                  // for --only
  std::string title;                 // a sentence about the worker
  std::function<void(Stage&)> play;  // throws Failure or Skip
  bool brief = false;                // also with --brief
};

std::vector<Case> login_cases();     // the login, and launchers that are none
std::vector<Case> stream_cases();    // frames after the login
std::vector<Case> start_cases();     // from `hello` to the first step
std::vector<Case> running_cases();   // while it trains, to its end
std::vector<Case> change_cases();    // from one generation to the next
std::vector<Case> recovery_cases();  // after a loss

}  // namespace espalier::launcher::conform
