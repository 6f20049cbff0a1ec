// Which of a job's nodes compute more slowly than its others, as one profile shows it. Pure.
#pragma once

#include <map>
#include <string>

#include "planner/core/model/profile.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// The speed of each node relative to the job's nodes that do the same work, by name. For example, a node at 0.5 needs
// twice as long for a sample of a layer as they do. Two nodes do the same work if both run inner stages, or the same
// first or last stage, at the same TP degree on the same type of GPU. They are compared with the lower median of their
// times: of two nodes, the slower one is slow. A node without another one to compare with is absent. A node in several
// stages gets the lowest of its figures. All-reduces inside a replica are left out where the profile tells them.
std::map<std::string, double> compute_shares(const Site& site, const Profile& profile);

}  // namespace espalier
