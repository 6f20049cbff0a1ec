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
  double share = 0;  // of what this distance allows
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

// What the ways say that are not slow.
void sum_up(const std::vector<const Way*>& sound, Findings& findings) {
  std::map<int, std::vector<double>> reached, rails;
  int streams = 1;
  for (const Way* way : sound) {
    reached[way->distance].push_back(way->reached());
    streams = std::max(streams, way->streams);
    if (way->streams > 1 && way->single > 0)
      rails[way->distance].push_back(std::clamp(std::round(way->all / way->single), 1.0, double(way->streams)));
  }
  if (reached.empty()) return;
  for (const auto& [distance, values] : reached) findings.by_distance[distance] = upper_median(values);
  const auto [nearest, fastest] = *findings.by_distance.begin();
  int nics = 1;
  if (rails.contains(nearest)) {
    nics = static_cast<int>(upper_median(rails[nearest]));
    findings.nics = nics == streams ? 0 : nics;
  }
  // log(bandwidth) falls by log(crossing) for every level above the leaf.
  double sum = 0, weight = 0;
  for (const auto& [distance, value] : findings.by_distance) {
    if (distance == nearest) continue;
    sum += (distance - nearest) * std::log(value / fastest);
    weight += (distance - nearest) * (distance - nearest);
  }
  if (weight > 0) findings.crossing = std::clamp(std::exp(sum / weight), 0.01, 1.0);
  double nic = fastest / nics;
  if (nearest > 1) {
    // The bandwidth of a leaf's links follows from pairs farther apart. With pairs of one distance only, the crossing
    // is not known, and the links of a leaf count as fast as the measured ones.
    if (!findings.crossing) findings.crossing = 1;
    nic /= std::pow(*findings.crossing, nearest - 1);
    findings.notes.push_back(
        "no two of the nodes are under one leaf switch: nic_gb_s follows from nodes farther apart");
  }
  findings.nic_gb_s = std::max(nic, 0.001);
}

}  // namespace

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void find_links(const ProbeReport& report, const Topology& topology, Findings& findings) {
  std::vector<Way> ways = ways_of(report, topology);
  if (ways.empty()) return findings.notes.push_back("one node only: nothing is known of links between nodes");
  std::map<int, std::vector<double>> by_distance;
  for (const Way& way : ways) by_distance[way.distance].push_back(way.reached());
  // Half of the ways of a distance may touch one slow node of four: the upper quarter does not.
  for (Way& way : ways) {
    auto& values = by_distance[way.distance];
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
  sum_up(sound, findings);
}

}  // namespace espalier
