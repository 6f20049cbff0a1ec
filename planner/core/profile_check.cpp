#include "planner/core/profile_check.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace espalier {
namespace {

constexpr double kMostMilliseconds = 1e9;  // eleven days
constexpr double kMostBytes = 1e15;
constexpr double kMostSpread = 1e6;
constexpr std::size_t kLongestDriver = 64;
constexpr std::size_t kMostLayerTimes = 64;
constexpr int kMostDegree = 1 << 16;

// NaN fails every comparison.
bool within(double value, double most) { return value >= 0 && value <= most; }

std::string unfit(const ReplicaProfile& one) {
  for (const auto& [name, ms] : {std::pair("fwd", one.fwd),
                                 {"comm_fwd", one.comm_fwd},
                                 {"bwd", one.bwd},
                                 {"bwd_weights", one.bwd_weights},
                                 {"optim", one.optim},
                                 {"sync", one.sync.value_or(0)}})
    if (!within(ms, kMostMilliseconds)) return std::string(name) + " is no time in ms";
  for (const auto& [name, bytes] : {std::pair("gradient_bytes", one.gradient_bytes),
                                    {"weight_bytes", one.weight_bytes},
                                    {"state_bytes", one.state_bytes},
                                    {"edge_gradient_bytes", one.edge_gradient_bytes},
                                    {"edge_state_bytes", one.edge_state_bytes},
                                    {"peak_bytes", one.peak_bytes}})
    if (!within(bytes, kMostBytes)) return std::string(name) + " is no size in bytes";
  if (!within(one.spread.value_or(0), kMostSpread)) return "spread is no share";
  if (one.comm_fwd > one.fwd) return "comm_fwd is more than fwd, of which it is a part";
  if (one.bwd_weights > one.bwd) return "bwd_weights is more than bwd, of which it is a part";
  return "";
}

std::string unfit(const std::vector<LayerTime>& times, int global_batch) {
  if (times.size() > kMostLayerTimes) return "profile: layer_times holds more than " + std::to_string(kMostLayerTimes);
  std::set<std::pair<int, int>> seen;
  for (const LayerTime& one : times) {
    if (one.tp < 1 || one.tp > kMostDegree) return "profile: layer_times: its tp is no TP degree";
    if (one.samples < 1 || one.samples > global_batch)
      return "profile: layer_times: its samples are not between 1 and the global batch";
    if (!(one.ms > 0 && one.ms <= kMostMilliseconds)) return "profile: layer_times: its ms is no time in ms above zero";
    if (!seen.insert({one.tp, one.samples}).second) return "profile: layer_times tells a degree and samples twice";
  }
  return "";
}

std::string unfit(const EdgeTimes& ends, int global_batch) {
  if (ends.tp < 1 || ends.tp > kMostDegree) return "profile: edge_times: its tp is no TP degree";
  if (ends.samples < 1 || ends.samples > global_batch)
    return "profile: edge_times: its samples are not between 1 and the global batch";
  if (!within(ends.first_ms, kMostMilliseconds)) return "profile: edge_times: its first_ms is no time in ms";
  if (!within(ends.last_ms, kMostMilliseconds)) return "profile: edge_times: its last_ms is no time in ms";
  return "";
}

}  // namespace

std::string unfit(const Profile& profile, const Plan& plan, const ModelShape& shape) {
  if (profile.plan != plan) return "profile: it is of another plan than the one that runs";
  if (!(profile.shape == shape)) return "profile: it is of another model than the job's";
  if (profile.step < 1) return "profile: its step must be at least 1";
  if (!within(profile.boundary_bytes, kMostBytes)) return "profile: boundary_bytes is no size in bytes";
  if (profile.steps < 0) return "profile: its number of steps must not be negative";
  if (profile.driver.size() > kLongestDriver ||
      std::any_of(profile.driver.begin(), profile.driver.end(), [](char c) { return c < ' ' || c > '~'; }))
    return "profile: its driver is no version";
  if (const std::string why = unfit(profile.layer_times, plan.global_batch); !why.empty()) return why;
  if (profile.edge_times)
    if (const std::string why = unfit(*profile.edge_times, plan.global_batch); !why.empty()) return why;
  if (profile.replicas.empty()) return "profile: it holds no replica";
  std::set<std::pair<int, int>> seen;
  for (const ReplicaProfile& one : profile.replicas) {
    const std::string name =
        "profile: stage " + std::to_string(one.stage) + " replica " + std::to_string(one.replica) + ": ";
    if (one.stage < 0 || static_cast<std::size_t>(one.stage) >= plan.stages.size() || one.replica < 0 ||
        static_cast<std::size_t>(one.replica) >= plan.stages[static_cast<std::size_t>(one.stage)].replicas.size())
      return name + "not in the plan";
    if (!seen.insert({one.stage, one.replica}).second) return name + "reported twice";
    if (const std::string why = unfit(one); !why.empty()) return name + why;
  }
  return "";
}

}  // namespace espalier
