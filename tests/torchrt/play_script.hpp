// What a play of the stage director is made of.
// SCRIPT: {"first": PLAN, "acts": [{"after": STEP, "plan": PLAN,
//   "abort": null | "ready" | "switch" | "standing" | "switched" | "loaded" | "starved" | "stays" |
//     "fails",
//   "restart": true, "kill": [RANK...], "lose": [NODE...], "stop": [RANK...], "torn": true,
//   "at_ms": NUMBER, "dies": true, "early": SECONDS, "late_ms": NUMBER, "at_commit": true, "serial": true,
//   "in_place": true, "lists": CSV}], "accuracy": "bitwise" | "relaxed"}
//
// An act starts a generation with its plan once STEP is done. The keys of an act:
//   "abort"      drops the new generation in that state; the old one trains on. An attempt to recover can be dropped
//                once it is "ready", and the act after it is the next attempt. "starved": at the
//                boundary the old ranks can open no more files and must report that they stay. "stays": something
//                else lets them report that. "fails": a rank of the new generation says that it failed. What is
//                reported is in the summary.
//   "restart"    the old generation switches first and exits. Then the new generation starts from
//                the newest checkpoint.
//   "kill"       kills these ranks of the old generation; the new one recovers.
//   "lose"       kills all ranks of these nodes and drops what the nodes' vaults keep. The job then has none of the
//                nodes' GPUs, until a plan uses one again.
//   "stop"       stops these ranks. They stand still, and only the vault ends them.
//   "dies"       ranks of the old generation end by themselves after the step; the new one recovers.
//   "torn"       the first killed rank dies while it changes a unit's state.
//   "at_ms"      the loss comes this many ms after the step, whatever the ranks are doing.
//   "silent"     beside the nodes' vaults is one that does not answer. The summary has how many states of units the
//                vaults hold in the end that the lost generation trained on ("state_left").
//   "at_commit"  the loss comes when the generation before has become the job, before its ranks
//                are told so.
//   "early"      for so many seconds the new generation may send state while the old one trains.
//   "late_ms"    the old generation is asked to stop this many ms after the new one is ready.
//   "serial"     the new generation loads only after the old one has given all its state.
//   "in_place"   asks the running generation to go on with the plan. It does if all its ranks say that they can. The
//                summary has what the others said.
//   "lists"      goes with that question: lists of the pipeline's schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/json.hpp"
#include "planner/core/plan.hpp"

namespace espalier::test {

struct Act {
  std::int64_t after = 0;
  Plan plan;
  std::string abort;
  std::vector<int> kill, stop;  // ranks
  std::vector<std::string> lose;
  bool torn = false;
  int at_ms = -1, late_ms = 0;
  double early = 0;
  std::string lists;
  bool at_commit = false, restart = false, serial = false, dies = false, in_place = false, silent = false;
  bool recovers() const { return !kill.empty() || !stop.empty() || !lose.empty() || dies; }
};

// Throws a JSON exception when the act lacks "after" or "plan".
inline Act act_of(const Json& act) {
  return {act.at("after").get<std::int64_t>(),
          act.at("plan").get<Plan>(),
          act.value("abort", Json()).is_null() ? "" : act.at("abort").get<std::string>(),
          act.value("kill", std::vector<int>()),
          act.value("stop", std::vector<int>()),
          act.value("lose", std::vector<std::string>()),
          act.value("torn", false),
          act.value("at_ms", -1),
          act.value("late_ms", 0),
          act.value("early", 0.0),
          act.value("lists", ""),
          act.value("at_commit", false),
          act.value("restart", false),
          act.value("serial", false),
          act.value("dies", false),
          act.value("in_place", false),
          act.value("silent", false)};
}

}  // namespace espalier::test
