#include "torchrt/recovery/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace espalier::torchrt {
namespace {

// The number in a file of one number. nullopt: there is none, or it is "max".
std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::optional<std::int64_t> available(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit))
    if (name == "MemAvailable:") return kilobytes * 1024;
  return std::nullopt;
}

// What the group and those above it leave: each has a limit of its own.
std::int64_t left_in(const std::string& mount, std::string group, const char* limit, const char* used) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  while (true) {
    const std::string folder = mount + group + "/";
    const auto most = number_in(folder + limit), now = number_in(folder + used);
    if (most && now) least = std::min(least, std::max<std::int64_t>(0, *most - *now));
    if (group.empty()) return least;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

std::int64_t free_host_memory(const std::string& root) {
  const auto host = available(root);
  if (!host) return 0;
  std::int64_t least = *host;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/slurm/job_7" or, of version 1, "5:memory:/slurm/job_7"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (!group.empty() && group.front() != '/') continue;
    if (kinds.empty()) least = std::min(least, left_in(root + "/sys/fs/cgroup", group, "memory.max", "memory.current"));
    else if (("," + kinds + ",").find(",memory,") != std::string::npos)
      least = std::min(
          least, left_in(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes"));
  }
  return least;
}

}  // namespace espalier::torchrt
