#include "torchrt/recovery/host_memory.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/unit/plan_files.hpp"

using espalier::plan_files::Folder;
using espalier::torchrt::free_host_memory;

namespace {

// A host with 100 MB available.
struct Host {
  Folder folder;
  Host() { put("proc/meminfo", "MemTotal:  200000 kB\nMemFree: 5 kB\nMemAvailable:  100000 kB\n"); }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder.path(name)).parent_path());
    folder.write(name, text);
  }
  std::int64_t left() const { return free_host_memory(folder.path("")); }
};

constexpr std::int64_t kAll = 102'400'000;

}  // namespace

TEST_CASE("without a control group's limit a process may take what the host has available") {
  Host host;
  CHECK(host.left() == kAll);
  host.put("proc/self/cgroup", "0::/\n");
  CHECK(host.left() == kAll);
  host.put("proc/self/cgroup", "0::/slurm/job_7\n");
  host.put("sys/fs/cgroup/slurm/job_7/memory.max", "max\n");
  host.put("sys/fs/cgroup/slurm/job_7/memory.current", "1000\n");
  CHECK(host.left() == kAll);
}

TEST_CASE("the tightest control group counts, that above it too, of either version") {
  Host host;
  host.put("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  host.put("sys/fs/cgroup/slurm/job_7/memory.max", "5000000\n");
  host.put("sys/fs/cgroup/slurm/job_7/memory.current", "1000000\n");
  CHECK(host.left() == 4'000'000);
  host.put("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "3000000\n");
  host.put("sys/fs/cgroup/slurm/job_7/step_0/memory.current", "1000000\n");
  CHECK(host.left() == 2'000'000);
  host.put("sys/fs/cgroup/slurm/job_7/step_0/memory.current", "9000000\n");
  CHECK(host.left() == 0);
  Host older;
  older.put("proc/self/cgroup", "7:cpu,cpuacct:/slurm\n5:freezer,memory:/slurm/job_7\n");
  older.put("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "7000000\n");
  older.put("sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "2000000\n");
  CHECK(older.left() == 5'000'000);
}

TEST_CASE("where nothing can be read no memory is counted on, and odd lines are left out") {
  Folder nothing;
  CHECK(free_host_memory(nothing.path("")) == 0);
  Host host;
  host.put("proc/self/cgroup", "nonsense\n0:\n0::nowhere\n::\n");
  CHECK(host.left() == kAll);
  CHECK(free_host_memory() > 0);
}
