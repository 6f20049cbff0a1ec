// A running job in one decision of the policy `arena`. Internal to the policy.
#pragma once

#include <string>

#include "planner/core/schedule/arena/proxy_book.hpp"
#include "planner/core/schedule/player.hpp"

namespace espalier {

struct ArenaMember {
  Player player;
  ProxyBook* book = nullptr;
  const MovableJob* movable = nullptr;  // null: its base stays where it is
  int pool = -1;                        // of its basic GPUs; -1: they are of several types, or nothing of it is lent
  int basic = 0, held = 0, most = 0;    // GPUs
  double weight = 1;
  double measured_per_model = 1;  // factor from the model's throughput to the measured one
  bool scales = false;            // takes part in scaling up
  std::string why_not;            // where it does not, or was not scaled
  const ElasticJob& job() const { return *player.job; }
};

}  // namespace espalier
