// Outcomes of decisions, as the planner is told of them. Pure.
#pragma once

#include <string>

#include "planner/wire/messages.hpp"

namespace espalier::launcher {

// `result`: "committed" or "aborted: why".
inline wire::Outcome outcome_of(JobId job, const Decision& decision, const std::string& result) {
  wire::Outcome outcome;
  outcome.job = job;
  outcome.decision = decision.id;
  outcome.kind = decision.kind;
  outcome.result = result;
  return outcome;
}

// The planner does not know a decision that the launcher made (id 0). So its outcome tells why it was made.
inline void tell_own(const Decision& decision, wire::Outcome& outcome) {
  if (decision.id != 0) return;
  outcome.trigger = decision.trigger;
  outcome.reason = decision.reason;
  outcome.candidates = decision.candidates;
}

}  // namespace espalier::launcher
