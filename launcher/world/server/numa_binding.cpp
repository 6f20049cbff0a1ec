#include "launcher/world/server/numa_binding.hpp"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

namespace espalier::launcher {
namespace {

namespace fs = std::filesystem;
constexpr int kMostCpus = 1 << 16;

// "0-3,8,10-11", the kernel's list of CPUs.
std::set<int> cpus_of(const std::string& text) {
  std::set<int> cpus;
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    int first = -1, last = -1;
    char dash = 0;
    std::istringstream words(range);
    if (!(words >> first)) continue;
    if (!(words >> dash >> last)) last = first;
    for (int cpu = std::max(0, first); cpu <= std::min(last, kMostCpus - 1); ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string line_of(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

int numa_node_of(std::string bus_id, const fs::path& sys) {
  if (bus_id.empty() || bus_id.find('/') != std::string::npos) return -1;
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(), [](unsigned char one) { return std::tolower(one); });
  int node = -1;
  std::istringstream in(line_of(sys / "bus/pci/devices" / bus_id / "numa_node"));
  return in >> node ? node : -1;
}

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeSet>;

}  // namespace

std::vector<std::string> bus_ids_of(const std::vector<std::string>& variables, const std::vector<int>& places) {
  std::vector<std::string> all;
  for (const std::string& variable : variables) {
    if (!variable.starts_with("ESPALIER_GPUS=")) continue;
    std::istringstream in(variable.substr(variable.find('=') + 1));
    for (std::string id; std::getline(in, id, ',');) all.push_back(id);
  }
  std::vector<std::string> ids;
  ids.reserve(places.size());
  for (const int place : places)
    ids.push_back(place >= 0 && static_cast<std::size_t>(place) < all.size() ? all[static_cast<std::size_t>(place)]
                                                                             : "");
  return ids;
}

bool wants_binding(const std::vector<std::string>& environment) {
  return std::find(environment.begin(), environment.end(), "ESPALIER_NUMA=off") == environment.end();
}

std::vector<std::vector<int>> cpus_near(const std::vector<std::string>& bus_ids, const std::set<int>& allowed,
                                        const fs::path& sys) {
  std::vector<std::vector<int>> near(bus_ids.size());
  if (cpus_of(line_of(sys / "devices/system/node/has_cpu")).size() < 2)
    return near;                                                       // a list of nodes has the same form
  std::map<std::string, std::vector<std::size_t>> of_node, of_socket;  // ranks by a list of CPUs
  for (std::size_t rank = 0; rank < bus_ids.size(); ++rank) {
    const int node = numa_node_of(bus_ids[rank], sys);
    if (node < 0) continue;
    const std::string own = line_of(sys / "devices/system/node" / ("node" + std::to_string(node)) / "cpulist");
    const std::set<int> cpus = cpus_of(own);
    if (cpus.empty()) continue;
    of_node[own].push_back(rank);
    of_socket[line_of(sys / "devices/system/cpu" / ("cpu" + std::to_string(*cpus.begin())) /
                      "topology/package_cpus_list")]
        .push_back(rank);
  }
  // The socket first; where a NUMA node alone is enough, it takes its place.
  for (const auto* groups : {&of_socket, &of_node})
    for (const auto& [list, ranks] : *groups) {
      std::vector<int> cpus;
      for (const int cpu : cpus_of(list))
        if (allowed.contains(cpu)) cpus.push_back(cpu);
      if (cpus.empty() || cpus.size() == allowed.size() ||
          4 * cpus.size() * bus_ids.size() < 3 * allowed.size() * ranks.size())
        continue;
      for (const std::size_t rank : ranks) near[rank] = cpus;
    }
  return near;
}

std::set<int> allowed_cpus() {
  std::set<int> cpus;
  const CpuSet set(CPU_ALLOC(kMostCpus));
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  if (!set || ::sched_getaffinity(0, bytes, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu)
    if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.insert(cpu);
  return cpus;
}

void bind_to(pid_t process, const std::vector<int>& cpus) {
  const CpuSet set(CPU_ALLOC(kMostCpus));
  if (!set || cpus.empty()) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes, set.get());
  ::sched_setaffinity(process, bytes, set.get());  // first: threads that it starts meanwhile inherit it
  std::error_code ignored;
  const fs::path tasks = fs::path("/proc") / std::to_string(process) / "task";
  for (const auto& task : fs::directory_iterator(tasks, ignored))
    ::sched_setaffinity(std::atoi(task.path().filename().c_str()), bytes, set.get());
}

}  // namespace espalier::launcher
