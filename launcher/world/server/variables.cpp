#include "launcher/world/server/variables.hpp"

#include <set>
#include <string_view>

namespace espalier::launcher {
namespace {
std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=')); }
}  // namespace

std::vector<std::string> merged(const std::vector<std::string>& base, const std::vector<std::string>& over) {
  std::set<std::string_view> names;
  for (const std::string& variable : over) names.insert(name_of(variable));
  std::vector<std::string> list;
  for (const std::string& variable : base)
    if (!names.contains(name_of(variable))) list.push_back(variable);
  list.insert(list.end(), over.begin(), over.end());
  return list;
}

}  // namespace espalier::launcher
