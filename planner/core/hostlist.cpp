#include "planner/core/hostlist.hpp"

#include <cstdlib>
#include <memory>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/slurm/hosts.h"

namespace espalier {
namespace {

using Hosts = std::unique_ptr<espalier_hosts, decltype(&espalier_hosts_destroy)>;
using Text = std::unique_ptr<char, decltype(&std::free)>;

}  // namespace

std::vector<std::string> expand_hosts(const char* text) {
  std::vector<std::string> names;
  if (text == nullptr || *text == '\0') return names;
  const Hosts list(espalier_hosts_create(text), espalier_hosts_destroy);
  if (!list) return names;
  while (const auto name = Text(espalier_hosts_shift(list.get()), std::free)) {
    if (names.size() == kMaxHosts)
      throw Error("host list " + std::string(text).substr(0, 64) + ": names more than " + std::to_string(kMaxHosts) +
                  " hosts");
    names.emplace_back(name.get());
  }
  return names;
}

std::string fold_hosts(const std::vector<std::string>& names) {
  const Hosts list(espalier_hosts_create(nullptr), espalier_hosts_destroy);
  if (!list) return "";
  for (const std::string& name : names) espalier_hosts_push(list.get(), name.c_str());
  const Text text(espalier_hosts_fold(list.get()), std::free);
  return text ? text.get() : "";
}

}  // namespace espalier
