#include "planner/core/probe/findings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/model/bandwidth_fit.hpp"
#include "planner/core/model/hardware.hpp"
#include "planner/core/probe/links.hpp"

namespace espalier {
namespace {

constexpr double kGigabytePerSecond = 1e6;  // bytes/ms
constexpr double kMegabyte = 1e6;
constexpr double kAlike = 1.25;  // nodes of two GPU types count as alike up to this ratio

using Types = std::map<std::string, std::string>;

const std::string& type_of(const Types& types, const std::string& node) {
  static const std::string kNone;
  const auto at = types.find(node);
  return at == types.end() ? kNone : at->second;
}

std::string percent_of(const char* what, double value, double typical, const std::string& type) {
  char text[160];
  std::snprintf(text, sizeof text, " %s at %.3g, %.0f%% of the other %s", what, value, 100 * value / typical,
                type.c_str());
  return text;
}

void find_gpus(const ProbeReport& report, const Types& types, Findings& findings) {
  std::map<std::string, std::vector<const GpuSpeed*>> by_type;
  for (const GpuSpeed& gpu : report.gpus) by_type[type_of(types, gpu.node)].push_back(&gpu);
  for (const auto& [type, gpus] : by_type) {
    std::vector<double> tflops, memory;
    for (const GpuSpeed* gpu : gpus) tflops.push_back(gpu->tflops), memory.push_back(gpu->memory_gb_s);
    Findings::Gpu& found = findings.gpus[type];
    found = {upper_median(tflops), upper_median(memory), static_cast<int>(gpus.size())};
    for (const GpuSpeed* gpu : gpus) {
      const std::string name = "GPU " + gpu->node + "/" + std::to_string(gpu->gpu);
      if (gpu->tflops < kSlowShare * found.tflops)
        findings.slow.push_back(name + percent_of("computes (TFLOPS)", gpu->tflops, found.tflops, type));
      if (gpu->memory_gb_s < kSlowShare * found.memory_bandwidth_gb_s)
        findings.slow.push_back(
            name + percent_of("copies memory (GB/s)", gpu->memory_gb_s, found.memory_bandwidth_gb_s, type));
    }
  }
}

// All-reduces that were measured several times count once, with the best figure.
std::vector<ReduceSpeed> best_of_repeated(const std::vector<ReduceSpeed>& all) {
  std::map<std::tuple<std::string, std::string, bool, int, double>, std::size_t> at;
  std::vector<ReduceSpeed> best;
  for (const ReduceSpeed& speed : all) {
    const auto [known, fresh] =
        at.try_emplace({speed.node, speed.other, speed.activations, speed.members, speed.bytes}, best.size());
    if (fresh) best.push_back(speed);
    else best[known->second].gb_s = std::max(best[known->second].gb_s, speed.gb_s);
  }
  return best;
}

// The best that a node reached, by node.
std::map<std::string, double> best_by_node(const std::vector<const ReduceSpeed*>& speeds) {
  std::map<std::string, double> best;
  for (const ReduceSpeed* speed : speeds) best[speed->node] = std::max(best[speed->node], speed->gb_s);
  return best;
}

// The figure of each GPU type; nodes far below their type are named and do not count.
std::map<std::string, double> by_type(const std::vector<const ReduceSpeed*>& speeds, const Types& types,
                                      const char* what, Findings& findings) {
  std::map<std::string, std::vector<double>> values;
  const auto best = best_by_node(speeds);
  for (const auto& [node, gb_s] : best) values[type_of(types, node)].push_back(gb_s);
  std::map<std::string, double> result;
  for (const auto& [type, some] : values) result[type] = upper_median(some);
  for (const auto& [node, gb_s] : best) {
    const std::string& type = type_of(types, node);
    if (gb_s < kSlowShare * result[type])
      findings.slow.push_back("node " + node + percent_of(what, gb_s, result[type], type));
  }
  return result;
}

bool alike(const std::map<std::string, double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end(),
                                                 [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->second <= kAlike * least->second;
}

// As replica_times() of stage_rates.cpp predicts them.
void fit_reduces(const std::vector<const ReduceSpeed*>& speeds, Findings& findings) {
  ClusterBandwidths start;
  double least = speeds.front()->bytes, most = least, best = 0;
  const auto sent = [](const ReduceSpeed& speed) { return 2 * (1 - 1.0 / speed.members) * speed.bytes; };
  for (const ReduceSpeed* speed : speeds) {
    least = std::min(least, sent(*speed));
    most = std::max(most, sent(*speed));
    best = std::max(best, speed->gb_s);
  }
  start.tp = best * kGigabytePerSecond;
  start.saturation_low = least / 4;
  const auto error = [&](const ClusterBandwidths& bandwidths) {
    Hardware hardware;
    hardware.v0 = bandwidths.saturation_low;
    hardware.v_sat = bandwidths.saturation_high;
    double sum = 0;
    for (const ReduceSpeed* speed : speeds) {
      const double reached = bandwidths.tp * saturation(hardware, sent(*speed)) / kGigabytePerSecond;
      sum += std::abs(speed->gb_s / reached - 1);  // of the predicted time
    }
    return sum / static_cast<double>(speeds.size());
  };
  // Below saturation the curve says little of where it ends, so the search begins at several ends.
  ClusterBandwidths found;
  double least_error = std::numeric_limits<double>::infinity();
  for (double end = 4 * least; end <= std::max(most, 4 * least); end *= 4) {
    start.saturation_high = end;
    const ClusterBandwidths fitted = fit_bandwidths(start, error);
    if (error(fitted) >= least_error) continue;
    least_error = error(fitted);
    found = fitted;
  }
  findings.tp_gb_s = found.tp / kGigabytePerSecond;
  findings.v0_mb = std::clamp(found.saturation_low / kMegabyte, 0.001, 1e4);
  findings.v_sat_mb = std::max(found.saturation_high / kMegabyte, 1.01 * *findings.v0_mb);
  findings.reduce_error = error(found);
}

void find_insides(const ProbeReport& report, const Types& types, Findings& findings) {
  std::vector<const ReduceSpeed*> activations, gradients;
  for (const ReduceSpeed& speed : report.reduces)
    if (speed.other.empty()) (speed.activations ? activations : gradients).push_back(&speed);
  if (activations.empty() || gradients.empty())
    return findings.notes.push_back("one GPU a node: nothing is known of links inside nodes");
  const auto tensor = by_type(activations, types, "all-reduces activations (GB/s)", findings);
  const auto ring = by_type(gradients, types, "all-reduces gradients (GB/s)", findings);
  if (!alike(tensor) || !alike(ring))
    return findings.notes.push_back(
        "nodes of different GPU types differ inside: tp_gb_s and dp_gb_s are left to the data sheets of the types");
  for (const auto& [node, type] : types)
    if (!tensor.contains(type))
      return findings.notes.push_back("GPU type " + type +
                                      " was not measured: tp_gb_s, v0_mb, v_sat_mb and dp_gb_s, which count for all "
                                      "nodes, are left as they are; measure a node of each type");
  const auto best = best_by_node(activations);
  std::erase_if(activations, [&](const ReduceSpeed* speed) {
    return best.at(speed->node) < kSlowShare * tensor.at(type_of(types, speed->node));
  });
  fit_reduces(activations, findings);
  findings.dp_gb_s = std::min_element(ring.begin(), ring.end(), [](const auto& a, const auto& b) {
                       return a.second < b.second;
                     })->second;
}

void find_pair_reduces(const ProbeReport& report, const Topology& topology, Findings& findings) {
  std::map<std::string, double> best;
  for (const ReduceSpeed& speed : report.reduces)
    if (!speed.other.empty() && topology.distance(topology.find(speed.node), topology.find(speed.other)) == 1)
      best[speed.node + " " + speed.other] = std::max(best[speed.node + " " + speed.other], speed.gb_s);
  std::vector<double> values;
  for (const auto& [pair, gb_s] : best) values.push_back(gb_s);
  if (!values.empty()) findings.pair_reduce_gb_s = upper_median(values);
}

}  // namespace

Findings findings_of(const ProbeReport& reported, const Topology& topology, const Types& types) {
  ProbeReport report = reported;
  report.reduces = best_of_repeated(reported.reduces);
  const auto known = [&](const std::string& node) {
    if (topology.find(node) < 0) throw Error("node " + node + ": measured, but not one of those that were asked for");
  };
  for (const GpuSpeed& gpu : report.gpus) known(gpu.node);
  for (const LinkSpeed& link : report.links) known(link.from), known(link.to);
  for (const ReduceSpeed& reduce : report.reduces) {
    known(reduce.node);
    if (!reduce.other.empty()) known(reduce.other);
    if (reduce.members < 2) throw Error("node " + reduce.node + ": an all-reduce of one GPU was measured");
  }
  Findings findings;
  find_gpus(report, types, findings);
  find_insides(report, types, findings);
  find_links(report, topology, types, findings);
  find_pair_reduces(report, topology, findings);
  if (!report.complete)
    findings.notes.push_back("time ran out: some measurements were left out; give more with --minutes");
  return findings;
}

}  // namespace espalier
