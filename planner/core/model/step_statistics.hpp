// When a few measured steps suffice: the statistics of a profile. Pure.
//
// A replica's work of a step is the time of its N_b forward and backward passes, its optimizer and
// its synchronization of gradients. From the measured steps its profile takes
// - the median of each time. One slow step, of which there are many on a shared machine, hardly
//   moves it;
// - the spread: the larger of two shares of the median work. The first is half the width of a
//   confidence interval of the median, from order statistics, so that no distribution is assumed.
//   It covers the true median with a probability of at least 87.5% (87.5% from 4 steps, where it is
//   the whole range; 93% from 8; 92% from 16). The second is half the difference between the
//   medians of the older and the newer half of the steps: a training that still warms up gets
//   faster from step to step.
// A profile is calm when it has at least kLeastSteps steps and the spread of each of its replicas
// is at most kCalmSpread. The planner uses the coefficients of a calm profile at once.
#pragma once

#include <vector>

#include "planner/core/model/profile.hpp"

namespace espalier {

constexpr int kLeastSteps = 4;
// Suika §3.1: coefficients are used when they fluctuate by at most 2%.
constexpr double kCalmSpread = 0.02;

// 0 without values.
double median(std::vector<double> values);
// `work`: of each measured step, oldest first. Infinity: fewer than kLeastSteps steps, or no work.
double spread_of(const std::vector<double>& work);

bool calm(const Profile& profile);
// Whether the profile tells its statistics at all. A program may leave them out.
bool tells_statistics(const Profile& profile);
// The largest spread of its replicas. 0: it tells none.
double spread_of(const Profile& profile);

}  // namespace espalier
