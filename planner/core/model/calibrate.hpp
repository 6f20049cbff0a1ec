// Inverts the model's equations: one running configuration gives all coefficients of a job (Suika
// App. A.4.2; step numbers in this code are the numbers there). Measured values are preferred to
// modelled values throughout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/profile.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// A stage whose measured synchronization time contradicts the cluster's bandwidth, whatever part of
// it overlaps.
struct BandwidthDoubt {
  int stage = 0;
  double modelled_ms = 0;  // the whole gradient synchronization as the model has it
  // The time that would explain the measurement. The bandwidth is wrong by the factor modelled /
  // explaining.
  double explaining_ms = 0;
  bool operator==(const BandwidthDoubt&) const = default;
};

// What is known of the job, or of jobs like it, where the profile does not tell it.
struct KnownBefore {
  double rail_ms_per_byte = 0;           // JobCoefficients::rail_ms_per_byte; 0: not known
  const JobCoefficients* job = nullptr;  // its degrees, fixed_samples and edges are asked; null: nothing is known
};

struct Calibration {
  JobCoefficients job;
  std::vector<BandwidthDoubt> doubts;
  std::vector<std::string> remarks;  // one sentence per fall-back
};

// Coefficients of GPU types that the plan does not use are scaled from a type that it uses. They
// stay marked as assumed. So does everything else that the configuration does not show. `bytes` and
// `tied` of `training` only fill gaps of the profile. recompute, zero1 and integer_sums come from the profile.
// `known.rail_ms_per_byte` is kept until this profile's sum of gradients proves another. A sum that is hidden behind
// computation proves nothing, unless even complete overlap could not hide that much. `own_lists`: the job's
// (JobCoefficients::own_lists), whose memory its plan may show; they are not part of the result. Throws Error when
// plan, topology and profile do not fit each other, or when no replica reports its times.
Calibration calibrate(const Hardware& hardware, const Topology& topology, const Profile& profile,
                      const Training& training = {}, const KnownBefore& known = {},
                      const std::shared_ptr<const OwnLists>& own_lists = {});

}  // namespace espalier
