#include "planner/daemon/kept_coefficients.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "planner/core/coefficients_json.hpp"

namespace espalier {
namespace {

// Bytes/ms inside and between nodes, and rails, of each kind of node.
Json bandwidths_of(const Hardware& hardware) {
  std::set<std::tuple<double, double, int>> kinds;
  for (const NodeKind& kind : hardware.kinds) kinds.insert({kind.dp_bandwidth, kind.nic_bandwidth, kind.nics});
  Json list = Json::array();
  for (const auto& [inside, between, rails] : kinds) {
    Json one = Json::array();
    one.push_back(inside);
    one.push_back(between);
    one.push_back(rails);
    list.push_back(std::move(one));
  }
  Json json = Json::object();
  json["crossing"] = hardware.crossing;
  json["kinds"] = std::move(list);
  return json;
}

}  // namespace

Json kept_coefficients(const JobCoefficients& job, const Hardware& hardware) {
  Json json = coefficients_json(job, hardware);
  json["bandwidths"] = bandwidths_of(hardware);
  return json;
}

Json shown_coefficients(Json kept) {
  if (kept.is_object()) kept.erase("bandwidths");
  return kept;
}

bool kept_with(const Json& bandwidths, const Hardware& hardware) {
  if (bandwidths.is_null()) return true;
  const Json now = bandwidths_of(hardware);
  if (bandwidths.at("crossing") != now.at("crossing")) return false;
  const Json &before = bandwidths.at("kinds"), &kinds = now.at("kinds");
  return std::all_of(before.begin(), before.end(),
                     [&](const Json& kind) { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); });
}

void keep_one_driver(std::vector<Knowledge>& rows, std::string driver) {
  double newest = 0;
  const bool told = !driver.empty();
  for (const Knowledge& row : rows)
    if (!told && !row.driver.empty() && row.updated >= newest) {
      newest = row.updated;
      driver = row.driver;
    }
  std::erase_if(rows, [&](const Knowledge& row) { return !row.driver.empty() && row.driver != driver; });
}

}  // namespace espalier
