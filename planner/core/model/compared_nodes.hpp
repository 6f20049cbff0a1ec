// Which of a job's nodes compute more slowly than its others, as one profile shows it. Pure.
#pragma once

#include <map>
#include <string>

#include "planner/core/model/profile.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// By node: the time that its like take for a sample of a layer, over its own. 0.6: it computes at 60% of what they do.
// Nodes are alike that run inner stages, or the same edge stage, at one TP degree on one type of GPU. The like's time
// is their lower median: of two nodes the slower one is slow. Nodes without a like are absent. Where a node is in
// several stages, the lowest of its figures counts. All-reduces inside a replica do not count as far as they are known.
std::map<std::string, double> compute_shares(const Site& site, const Profile& profile);

}  // namespace espalier
