#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "launcher/node/gpu_bus_ids.hpp"

using namespace espalier;

namespace {

namespace fs = std::filesystem;

// The folder of NVIDIA's kernel driver.
class Driver {
 public:
  Driver() {
    std::string name = (fs::temp_directory_path() / "driver-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Driver() { fs::remove_all(path); }
  void add(const std::string& bus_id, const std::string& minor) const {
    fs::create_directory(path / bus_id);
    std::ofstream(path / bus_id / "information")
        << "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 120\nBus Location: \t " << bus_id << "\nDevice Minor: \t "
        << minor << "\nGPU Excluded:\t No\n";
  }
  // `may_use`: minor numbers
  std::string ids(const std::string& gpus, const std::set<int>& may_use) const {
    return launcher::gpu_bus_ids(gpus, path, [&](int minor) { return may_use.count(minor) != 0; });
  }
  fs::path path;
};

}  // namespace

TEST_CASE("bus ids of a step's GPUs come in the order of Slurm's numbers") {
  const Driver driver;
  driver.add("0000:a1:00.0", "2");
  driver.add("0000:0a:00.0", "0");
  driver.add("0000:41:00.0", "1");
  driver.add("0001:01:00.0", "3");
  CHECK(driver.ids("0,1,2,3", {0, 1, 2, 3}) == "0000:0a:00.0,0000:41:00.0,0000:a1:00.0,0001:01:00.0");
  CHECK(driver.ids("2,0", {0, 2}) == "0000:0a:00.0,0000:a1:00.0");
  CHECK(driver.ids("3", {3}) == "0001:01:00.0");
  SUBCASE("what is no list of GPUs of this node has none") {
    for (const std::string wrong : {"", "4", "0,4", "0,", ",0", "0,0", "-1", "0-1", "GPU-0b", "1x", "99999999999"}) {
      CAPTURE(wrong);
      CHECK(driver.ids(wrong, {0, 1, 2, 3}).empty());
    }
  }
  SUBCASE("nothing is guessed where the driver does not name all GPUs") {
    driver.add("0000:00:00.0", "none");
    CHECK(driver.ids("3", {0, 1, 2, 3}) == "");
  }
}

TEST_CASE("where device files have another order than the bus, those count that the step may use") {
  const Driver driver;
  driver.add("0000:01:00.0", "3");
  driver.add("0000:02:00.0", "2");
  driver.add("0000:03:00.0", "1");
  driver.add("0000:04:00.0", "0");
  CHECK(driver.ids("0,1", {3, 2}) == "0000:01:00.0,0000:02:00.0");
  CHECK(driver.ids("0,1", {0, 1}) == "0000:04:00.0,0000:03:00.0");
  CHECK(driver.ids("0,1", {0, 1, 2, 3}) == "0000:01:00.0,0000:02:00.0");
  CHECK(driver.ids("0,1", {0, 2}) == "");
}

TEST_CASE("bus ids are known by Slurm's numbers of the GPUs") {
  const Driver driver;
  for (int i = 0; i < 4; ++i) driver.add("0000:0" + std::to_string(i + 1) + ":00.0", std::to_string(i));
  const auto all = [](int) { return true; };
  CHECK(launcher::numbered_bus_ids("3,1", driver.path, all) ==
        std::map<int, std::string>{{1, "0000:02:00.0"}, {3, "0000:04:00.0"}});
  CHECK(launcher::numbered_bus_ids("3,4", driver.path, all).empty());
  CHECK(launcher::numbered_bus_ids("", driver.path, all).empty());
}

TEST_CASE("without NVIDIA's driver there are no bus ids") {
  CHECK(launcher::gpu_bus_ids("0", "/proc/none/nvidia/gpus") == "");
}
