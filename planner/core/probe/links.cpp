#include "planner/core/probe/links.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "planner/core/probe/request.hpp"

namespace espalier {
namespace {

// One direction of a pair.
struct Way {
  std::string from, to;
  int distance = 1;
  double single = 0, all = 0;  // GB/s of one stream, and of one stream per GPU
  int streams = 1;
  double single_bytes = 0, all_bytes = 0;  // of the messages that told it
  double reached() const { return streams > 1 ? all : single; }
  double share = 0;  // of what its like reach: ways of this distance between the same GPU types
};

std::vector<Way> ways_of(const ProbeReport& report, const Topology& topology) {
  std::map<NodePair, Way> ways;
  for (const LinkSpeed& speed : report.links) {
    Way& way = ways[{speed.from, speed.to}];
    way.from = speed.from, way.to = speed.to;
    way.distance = topology.distance(topology.find(speed.from), topology.find(speed.to));
    // The largest messages tell most. The best of all would be the one that was measured worst.
    double& rate = speed.streams > 1 ? way.all : way.single;
    double& bytes = speed.streams > 1 ? way.all_bytes : way.single_bytes;
    if (speed.bytes >= bytes) bytes = speed.bytes, rate = speed.gb_s;
    way.streams = std::max(way.streams, speed.streams);
  }
  std::vector<Way> result;
  for (auto& [key, way] : ways) result.push_back(std::move(way));
  return result;
}

std::string figure(const char* format, double a, double b) {
  char text[120];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}

// The best share of each node, in one direction.
std::map<std::string, double> best_of(const std::vector<Way>& ways, std::string Way::*node) {
  std::map<std::string, double> best;
  for (const Way& way : ways) best[way.*node] = std::max(best[way.*node], way.share);
  return best;
}

double typical_of(const std::map<std::string, double>& best) {
  std::vector<double> values;
  for (const auto& [node, share] : best) values.push_back(share);
  return upper_median(std::move(values));
}

// A node whose every way is slow has a slow link itself. Two nodes alone cannot tell which of them
// is slow, nor that one is.
std::set<std::string> slow_nodes(const std::vector<Way>& ways, std::string Way::*node, const char* does,
                                 Findings& findings) {
  const auto best = best_of(ways, node);
  const double typical = typical_of(best);
  std::set<std::string> slow;
  for (const auto& [name, share] : best) {
    if (share >= kSlowShare * typical || best.size() < 3) continue;
    slow.insert(name);
    double reached = 0;
    for (const Way& way : ways)
      if (way.*node == name) reached = std::max(reached, way.reached());
    findings.slow.push_back(
        "node " + name + " " + does +
        figure(" at %.3g GB/s, %.0f%% of what its like do; check its link", reached, 100 * share / typical));
  }
  return slow;
}

// The types of a way's two nodes, in either order.
using TypePair = std::pair<std::string, std::string>;

TypePair types_of(const Way& way, const std::map<std::string, std::string>& types) {
  const auto type = [&](const std::string& node) {
    const auto at = types.find(node);
    return at == types.end() ? std::string() : at->second;
  };
  return std::minmax(type(way.from), type(way.to));
}

// What the sound ways between nodes of two types tell, by distance.
struct Group {
  std::map<int, double> gb_s;
  std::map<int, std::vector<double>> rails;
  int streams = 1;
  int nearest() const { return gb_s.begin()->first; }
  double fastest() const { return gb_s.begin()->second; }
  int nics() const { return rails.contains(nearest()) ? static_cast<int>(upper_median(rails.at(nearest()))) : 1; }
};
using Groups = std::map<TypePair, Group>;

Groups groups_of(const std::vector<const Way*>& sound, const std::map<std::string, std::string>& types) {
  Groups groups;
  std::map<TypePair, std::map<int, std::vector<double>>> reached;
  for (const Way* way : sound) {
    const TypePair pair = types_of(*way, types);
    reached[pair][way->distance].push_back(way->reached());
    Group& group = groups[pair];
    group.streams = std::max(group.streams, way->streams);
    if (way->streams > 1 && way->single > 0)
      group.rails[way->distance].push_back(std::clamp(std::round(way->all / way->single), 1.0, double(way->streams)));
  }
  for (const auto& [pair, by_distance] : reached)
    for (const auto& [distance, values] : by_distance) groups[pair].gb_s[distance] = upper_median(values);
  return groups;
}

// What a group's farther ways are compared with: its nearest ones. Between two types the slower one counts, where the
// nodes of each are nearer to each other.
std::pair<int, double> nearest_of(const TypePair& pair, const Groups& groups) {
  const Group& own = groups.at(pair);
  const auto one = groups.find({pair.first, pair.first}), other = groups.find({pair.second, pair.second});
  if (one == groups.end() || other == groups.end()) return {own.nearest(), own.fastest()};
  const int distance = one->second.nearest();
  if (other->second.nearest() != distance || own.nearest() <= distance) return {own.nearest(), own.fastest()};
  return {distance, std::min(one->second.fastest(), other->second.fastest())};
}

// log(bandwidth) falls by log(crossing) for every level above the leaf.
std::optional<double> crossing_of(const Groups& groups) {
  double sum = 0, weight = 0;
  for (const auto& [pair, group] : groups) {
    const auto [nearest, fastest] = nearest_of(pair, groups);
    for (const auto& [distance, value] : group.gb_s) {
      if (distance == nearest) continue;
      sum += (distance - nearest) * std::log(value / fastest);
      weight += (distance - nearest) * (distance - nearest);
    }
  }
  if (weight <= 0) return std::nullopt;
  return std::clamp(std::exp(sum / weight), 0.01, 1.0);
}

// One rail under a leaf. The bandwidth of a leaf's links follows from pairs farther apart where there are no others.
double rail_of(const Group& group, double crossing) {
  return std::max(group.fastest() / group.nics() / std::pow(crossing, group.nearest() - 1), 0.001);
}

// The group that tells a type's links: that of its own nodes, or the fastest with another type, whose slower end it is
// at least as fast as.
const Group* telling(const Groups& groups, const std::string& type, double crossing) {
  if (const auto own = groups.find({type, type}); own != groups.end()) return &own->second;
  const Group* best = nullptr;
  for (const auto& [pair, group] : groups)
    if ((pair.first == type || pair.second == type) &&
        (best == nullptr || rail_of(group, crossing) > rail_of(*best, crossing)))
      best = &group;
  return best;
}

// What the ways say that are not slow.
void sum_up(const std::vector<const Way*>& sound, const std::map<std::string, std::string>& types, Findings& findings) {
  if (sound.empty()) return;
  std::map<int, std::vector<double>> reached;
  for (const Way* way : sound) reached[way->distance].push_back(way->reached());
  for (const auto& [distance, values] : reached) findings.by_distance[distance] = upper_median(values);
  const Groups groups = groups_of(sound, types);
  findings.crossing = crossing_of(groups);
  std::set<std::string> measured, all;
  for (const auto& [pair, group] : groups) measured.insert({pair.first, pair.second});
  for (const auto& [node, type] : types) all.insert(type);
  const auto far = [&](const std::string& type) { return telling(groups, type, 1)->nearest() > 1; };
  if (std::any_of(measured.begin(), measured.end(), far)) {
    // With pairs of one distance only, the crossing is not known, and the links of a leaf count as fast as the measured
    // ones.
    if (!findings.crossing) findings.crossing = 1;
    findings.notes.push_back(
        "no two of the nodes are under one leaf switch: nic_gb_s follows from nodes farther apart");
  }
  const double crossing = findings.crossing.value_or(1);
  for (const std::string& type : measured) {
    const Group& group = *telling(groups, type, crossing);
    const bool told = group.rails.contains(group.nearest());
    if (all.size() > 1) {
      findings.rails[type] = {rail_of(group, crossing), told && group.nics() != group.streams ? group.nics() : 0};
      continue;
    }
    findings.nic_gb_s = rail_of(group, crossing);
    if (told) findings.nics = group.nics() == group.streams ? 0 : group.nics();
  }
}

}  // namespace

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void find_links(const ProbeReport& report, const Topology& topology, const std::map<std::string, std::string>& types,
                Findings& findings) {
  std::vector<Way> ways = ways_of(report, topology);
  if (ways.empty()) return findings.notes.push_back("one node only: nothing is known of links between nodes");
  // Nodes of other types may have other links: a way's like is one between the same types.
  std::map<std::pair<TypePair, int>, std::vector<double>> alike;
  for (const Way& way : ways) alike[{types_of(way, types), way.distance}].push_back(way.reached());
  // Half of the ways of a distance may touch one slow node of four: the upper quarter does not.
  for (Way& way : ways) {
    auto& values = alike[{types_of(way, types), way.distance}];
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(3 * values.size() / 4);
    std::nth_element(values.begin(), at, values.end());
    way.share = way.reached() / *at;
  }
  const auto senders = slow_nodes(ways, &Way::from, "sends", findings);
  const auto receivers = slow_nodes(ways, &Way::to, "receives", findings);
  const auto sent = best_of(ways, &Way::from), received = best_of(ways, &Way::to);
  std::vector<const Way*> sound;
  for (const Way& way : ways) {
    const double can = std::min(sent.at(way.from), received.at(way.to));
    const bool slow = way.share < kSlowShare * can;
    if (slow)
      findings.slow.push_back(
          "the path from " + way.from + " to " + way.to +
          figure(" reaches %.3g GB/s, %.0f%% of what both do elsewhere", way.reached(), 100 * way.share / can));
    if (!slow && !senders.contains(way.from) && !receivers.contains(way.to)) sound.push_back(&way);
  }
  sum_up(sound, types, findings);
}

}  // namespace espalier
