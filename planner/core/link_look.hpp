// What a generation of a job has measured of the links between its nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planner/core/json.hpp"
#include "planner/core/plan.hpp"

namespace espalier {

// The bandwidth between two nodes, as one pair of the job's ranks reached it.
struct LinkFigure {
  std::string from, to;
  double gb_s = 0;  // 1e9 bytes per second; the mean of both directions
};

// One short look at the links that a plan uses.
struct LinkLook {
  int number = 0;  // of the generation's looks, from 1; 0: it has not looked yet
  std::vector<LinkFigure> figures;
};
// Figures of a look.
inline constexpr std::size_t kMostLinkFigures = 256;

Json json_of(const LinkLook& look);
// Throws Error that names the field.
LinkLook link_look(const Json& json);
// Why `look` cannot come from a job that runs `plan`, as "links: ..."; empty when it can. For all code that receives
// looks from other processes.
std::string unfit(const LinkLook& look, const Plan& plan);

}  // namespace espalier
