// Links between nodes: which are slow, and what the others say of the network. For findings.cpp.
#pragma once

#include "planner/core/probe/findings.hpp"

namespace espalier {

// The middle value, the upper one of an even number. `values` must not be empty.
double upper_median(std::vector<double> values);

// Below this share of its like something is called slow.
inline constexpr double kSlowShare = 0.75;

// Adds nic_gb_s and nics or rails, crossing, by_distance, and sentences about slow links. `types`: as of findings_of().
void find_links(const ProbeReport& report, const Topology& topology, const std::map<std::string, std::string>& types,
                Findings& findings);

}  // namespace espalier
