// Names of the enumerations, and of servers in GpuIslands.
#include <array>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"

namespace espalier {
namespace {

constexpr std::array<std::string_view, 2> kAccuracy{"bitwise", "relaxed"};
constexpr std::array<std::string_view, 4> kHandoffMethod{"adopt", "device", "overlap", "checkpoint"};
constexpr std::array<std::string_view, 12> kPhase{"launching", "running",    "acquiring",  "starting",
                                                  "ready",     "switching",  "committed",  "recovering",
                                                  "saving",    "restarting", "replanning", "ending"};
constexpr std::array<std::string_view, 6> kKind{"nothing", "grow", "shrink", "migrate", "recover", "start"};
constexpr std::array<std::string_view, 9> kTrigger{"job_submitted",   "gpus_released", "job_started", "profile_ready",
                                                   "generation_done", "node_down",     "timer",       "user",
                                                   "preempted"};

template <class Enum, std::size_t N>
std::string name_of(Enum value, const std::array<std::string_view, N>& names) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? std::string(names[index]) : "invalid";
}

template <class Enum, std::size_t N>
Enum value_of(const std::string& name, const std::array<std::string_view, N>& names, const char* what) {
  std::string choices;
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
    choices += (i ? ", " : "") + std::string(names[i]);
  }
  throw Error(std::string(what) + " \"" + name + "\": unknown; use one of " + choices);
}

}  // namespace

std::string islands_key(const std::string& node, JobId job) { return node + "/" + std::to_string(job); }

std::string to_string(Accuracy value) { return name_of(value, kAccuracy); }
std::string to_string(HandoffMethod value) { return name_of(value, kHandoffMethod); }
std::string to_string(JobPhase value) { return name_of(value, kPhase); }
std::string to_string(DecisionKind value) { return name_of(value, kKind); }
std::string to_string(Trigger value) { return name_of(value, kTrigger); }
Accuracy accuracy_from(const std::string& name) { return value_of<Accuracy>(name, kAccuracy, "accuracy"); }
HandoffMethod handoff_method_from(const std::string& name) {
  return value_of<HandoffMethod>(name, kHandoffMethod, "hand-off method");
}
JobPhase phase_from(const std::string& name) { return value_of<JobPhase>(name, kPhase, "phase"); }
DecisionKind kind_from(const std::string& name) { return value_of<DecisionKind>(name, kKind, "decision kind"); }
Trigger trigger_from(const std::string& name) { return value_of<Trigger>(name, kTrigger, "trigger"); }

}  // namespace espalier
