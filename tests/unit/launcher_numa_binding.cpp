// Ranks run on the CPUs of the NUMA node that their GPU is attached to.
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/world/server/numa_binding.hpp"

namespace fs = std::filesystem;
using espalier::launcher::cpus_near;
using Cpus = std::set<int>;
using List = std::vector<int>;

namespace {

// A machine as /sys shows it: the lists of CPUs of its NUMA nodes, and to which of them each device is attached.
struct Machine {
  fs::path sys = fs::temp_directory_path() / ("espalier-numa-" + std::to_string(::getpid()));
  Machine(const std::vector<std::string>& cpus, const std::vector<std::pair<std::string, int>>& devices) {
    const fs::path nodes = sys / "devices/system/node";
    for (std::size_t node = 0; node < cpus.size(); ++node) {
      fs::create_directories(nodes / ("node" + std::to_string(node)));
      std::ofstream(nodes / ("node" + std::to_string(node)) / "cpulist") << cpus[node] << '\n';
    }
    std::ofstream(nodes / "has_cpu") << (cpus.size() == 1 ? "0" : "0-" + std::to_string(cpus.size() - 1)) << '\n';
    for (const auto& [bus, node] : devices) {
      fs::create_directories(sys / "bus/pci/devices" / bus);
      std::ofstream(sys / "bus/pci/devices" / bus / "numa_node") << node << '\n';
    }
  }
  ~Machine() { fs::remove_all(sys); }
};

Cpus range(int first, int last) {
  Cpus cpus;
  for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  return cpus;
}

const std::vector<std::pair<std::string, int>> kTwo{{"0000:41:00.0", 0}, {"0000:a1:00.0", 1}};

}  // namespace

TEST_CASE("each rank gets the CPUs of its GPU's NUMA node, of those that the job has") {
  const Machine machine({"0-3,8-11", "4-7,12-15"}, kTwo);
  const auto near = cpus_near({"0000:41:00.0", "0000:A1:00.0"}, range(0, 12), machine.sys);
  CHECK(near[0] == List{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(near[1] == List{4, 5, 6, 7, 12});                                                    // of 6.5 in the mean
  CHECK(cpus_near({"0000:41:00.0", "0000:A1:00.0"}, range(0, 11), machine.sys)[1].empty());  // 4 of 6
  CHECK(cpus_near({"0000:41:00.0", "0000:a1:00.0"}, range(0, 15), machine.sys)[1] == List{4, 5, 6, 7, 12, 13, 14, 15});
}

TEST_CASE("a rank is not bound where that would take CPUs from it, or where nothing is known") {
  const Machine machine({"0-3", "4-7"}, {{"0000:41:00.0", 0}, {"0000:a1:00.0", 1}, {"0000:c1:00.0", -1}});
  SUBCASE("the job's CPUs are on the other socket") {
    CHECK(cpus_near({"0000:a1:00.0"}, range(0, 3), machine.sys)[0].empty());
  }
  SUBCASE("two ranks would share one CPU while the job has three for them") {
    const auto near = cpus_near({"0000:41:00.0", "0000:41:00.0"}, {0, 4, 5}, machine.sys);
    CHECK(near[0].empty());
    CHECK(near[1].empty());
  }
  SUBCASE("a GPU that the kernel knows no NUMA node of, no bus id, one that is not there, and a path") {
    for (const auto& one : cpus_near({"0000:c1:00.0", "", "0000:ff:00.0", "../../x"}, range(0, 7), machine.sys))
      CHECK(one.empty());
  }
}

TEST_CASE("where a NUMA node has too few CPUs for its ranks they get those of its socket") {
  // Two sockets of two NUMA nodes, of which one each has GPUs.
  const Machine machine({"0-3", "4-7", "8-11", "12-15"},
                        {{"0000:41:00.0", 1}, {"0000:42:00.0", 1}, {"0000:a1:00.0", 2}, {"0000:a2:00.0", 2}});
  for (const auto& [cpu, socket] : {std::pair{4, "0-7"}, std::pair{8, "8-15"}}) {
    const fs::path topology = machine.sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    fs::create_directories(topology);
    std::ofstream(topology / "package_cpus_list") << socket << '\n';
  }
  const auto near =
      cpus_near({"0000:41:00.0", "0000:42:00.0", "0000:a1:00.0", "0000:a2:00.0"}, range(0, 15), machine.sys);
  CHECK(near[0] == List{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(near[1] == near[0]);
  CHECK(near[2] == List{8, 9, 10, 11, 12, 13, 14, 15});
  // With two ranks each node is enough for its own.
  CHECK(cpus_near({"0000:41:00.0", "0000:a1:00.0"}, {0, 4, 5, 6, 7, 8, 9, 10, 11}, machine.sys)[0] == List{4, 5, 6, 7});
}

TEST_CASE("on a machine with one NUMA node nothing is bound") {
  const Machine machine({"0-7"}, {{"0000:41:00.0", 0}});
  CHECK(cpus_near({"0000:41:00.0"}, range(0, 7), machine.sys)[0].empty());
}

TEST_CASE("the GPUs of the ranks by their places among those of the job") {
  using espalier::launcher::bus_ids_of;
  using Ids = std::vector<std::string>;
  CHECK(bus_ids_of({"A=1", "ESPALIER_GPUS=x,y"}, {1, 0, 2, -1}) == Ids{"y", "x", "", ""});
  CHECK(bus_ids_of({"ESPALIER_GPUS="}, {0}) == Ids{""});
  CHECK(espalier::launcher::wants_binding({"A=1"}));
  CHECK_FALSE(espalier::launcher::wants_binding({"A=1", "ESPALIER_NUMA=off"}));
}

TEST_CASE("a process is bound to CPUs; to none it is not") {
  const Cpus all = espalier::launcher::allowed_cpus();
  REQUIRE(!all.empty());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto cpus_of = [&] {
    cpu_set_t set;
    REQUIRE(::sched_getaffinity(child, sizeof set, &set) == 0);
    Cpus cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
    return cpus;
  };
  espalier::launcher::bind_to(child, {});
  CHECK(cpus_of() == all);
  espalier::launcher::bind_to(child, {*all.rbegin()});
  CHECK(cpus_of() == Cpus{*all.rbegin()});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}
