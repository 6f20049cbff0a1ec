// Inverts the model's equations: all coefficients of a job from one configuration that runs (Suika App. A.4.2; the
// steps' numbers here are those of the inversion in that order). Measured values are preferred to modelled ones
// throughout.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/profile.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// A stage whose synchronization the cluster's bandwidth cannot explain, whatever overlaps.
struct BandwidthDoubt {
  int stage = 0;
  double modelled_ms = 0;    // whole gradient synchronization by the model
  double explaining_ms = 0;  // what it would have to take: bandwidth is off by modelled / explaining
  bool operator==(const BandwidthDoubt&) const = default;
};

struct Calibration {
  JobCoefficients job;
  std::vector<BandwidthDoubt> doubts;
  std::vector<std::string> remarks;  // one sentence per fall-back that was taken
};

// Types that the plan does not use are scaled from one that it uses and stay marked as assumed, as does all else that
// the configuration does not show. `bytes` and `tied` of `training` only matter for sizes the profile lacks; recompute
// and zero1 come from the profile. Throws Error where plan, topology and profile do not fit each other or no replica's
// times are there.
Calibration calibrate(const Hardware& hardware, const Topology& topology, const Profile& profile,
                      const Training& training = {});

}  // namespace espalier
