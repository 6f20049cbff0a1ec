#include <algorithm>

#include "launcher/world/server/pmix_server.hpp"

namespace espalier::launcher {

int PmixNamespace::size() const {
  std::size_t count = 0;
  for (const Place& place : places) count += place.ranks.size();
  return static_cast<int>(count);
}

std::vector<int> PmixNamespace::ranks_of_this_node() const {
  const auto node_of = [](const Place& place) { return place.server.substr(0, place.server.rfind('.')); };
  std::vector<int> ranks;
  for (const Place& place : places)
    if (node_of(place) == node_of(places.at(here))) ranks.insert(ranks.end(), place.ranks.begin(), place.ranks.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool PmixNamespace::of_one_job() const {
  const auto job_of = [](const Place& place) { return place.server.substr(place.server.rfind('.') + 1); };
  return std::all_of(places.begin(), places.end(),
                     [&](const Place& place) { return job_of(place) == job_of(places.front()); });
}

}  // namespace espalier::launcher
