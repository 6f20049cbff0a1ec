#include "planner/daemon/fair_shares.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace espalier {
namespace {

constexpr int kMostLevels = 64;  // of accounts

}  // namespace

bool FairShares::is_within(const std::string& account, const std::string& above) const {
  const std::string* at = &account;
  for (int level = 0; level < kMostLevels; ++level) {
    if (*at == above) return true;
    const auto parent = parents.find(*at);
    if (parent == parents.end()) return false;
    at = &parent->second;
  }
  return false;
}

FairShares parse_fair_shares(const std::string& text) {
  FairShares result;
  std::vector<std::string> path;  // the account of each level
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find('|');
    const auto second = first == std::string::npos ? first : line.find('|', first + 1);
    const auto level = std::min(line.find_first_not_of(' '), line.size());
    if (second == std::string::npos || level >= first || level >= kMostLevels) continue;
    const std::string account = line.substr(level, first - level), user = line.substr(first + 1, second - first - 1);
    if (user.empty()) {
      if (level > path.size()) continue;
      path.resize(level);
      if (level > 0) result.parents[account] = path.back();
      path.push_back(account);
      continue;
    }
    char* end = nullptr;
    const std::string number = line.substr(second + 1);
    const double factor = std::strtod(number.c_str(), &end);
    if (end == number.c_str() || !(factor >= 0 && factor <= 1)) continue;
    // A user with an association for each of several partitions counts with the best of them.
    double& known = result.factors.try_emplace({account, user}, 0).first->second;
    known = std::max(known, factor);
  }
  const auto is_zero = [](const auto& one) { return one.second == 0; };
  if (std::all_of(result.factors.begin(), result.factors.end(), is_zero)) result.factors.clear();
  return result;
}

}  // namespace espalier
