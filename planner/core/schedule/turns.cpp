#include "planner/core/schedule/turns.hpp"

#include <algorithm>
#include <cmath>

namespace espalier {

void take_turns(std::vector<Player>& players, double short_first, const std::map<JobId, double>& weights) {
  double sum = 0;
  int known = 0;
  std::vector<double> work;
  work.reserve(players.size());
  for (const Player& one : players) {
    work.push_back(remaining_seconds(*one.job) * one.first_size);
    if (std::isfinite(work.back())) sum += work.back(), ++known;
  }
  const double mean = known > 0 ? sum / known : 1;
  for (std::size_t i = 0; i < players.size(); ++i) {
    players[i].turn = std::pow(std::max(std::isfinite(work[i]) ? work[i] : mean, 1.0), -short_first);
    if (const auto weight = weights.find(players[i].job->id); weight != weights.end())
      players[i].turn *= weight->second;
  }
}

}  // namespace espalier
