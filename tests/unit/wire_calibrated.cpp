// Which figures are in force: those that `espalier calibrate` wrote, or espalier.toml's.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "planner/cli/calibrate_report.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/config.hpp"

using namespace espalier;

namespace {

class Site {
 public:
  Site() {
    char name[] = "/tmp/espalier-calibrated-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~Site() {
    ::unlink((folder + "/calibrated.toml").c_str());
    ::unlink((folder + "/espalier.toml").c_str());
    ::rmdir(folder.c_str());
  }
  wire::Config read(const std::string& own, const std::string& calibrated) const {
    std::ofstream(folder + "/espalier.toml") << "planner.state_dir = \"" + folder + "\"\n" + own;
    cli::replace_file(folder + "/calibrated.toml", calibrated);
    return wire::load_planner_config(folder + "/espalier.toml");
  }
  std::string folder;
};

Findings measured() {
  Findings findings;
  findings.tp_gb_s = 300;
  findings.v0_mb = 0.25;
  findings.v_sat_mb = 64;
  findings.nic_gb_s = 45.5;
  findings.nics = 4;
  findings.gpus["nvidia_a100-sxm4-80gb"] = {250, 1500, 8};
  return findings;
}

}  // namespace

TEST_CASE("what calibrate writes is what the planner reads") {
  const Site site;
  const auto config = site.read("", to_toml(measured(), "2026-11-23T19:00:00Z", "n[1-4]"));
  CHECK(config.calibrated.problem.empty());
  CHECK(config.hardware.tp_gb_s == 300);
  CHECK(config.hardware.v0_mb == 0.25);
  CHECK(config.hardware.v_sat_mb == 64);
  CHECK(config.hardware.nic_gb_s == 45.5);
  CHECK(config.hardware.nics == 4);
  CHECK(config.hardware.dp_gb_s == 0);
  CHECK(config.hardware.measured == "2026-11-23T19:00:00Z");
  CHECK(config.hardware.gpus.at("nvidia_a100-sxm4-80gb") == GpuOverride{250, 0, 1500, "2026-11-23T19:00:00Z"});
  CHECK(config.calibrated.used.size() == 7);
  CHECK(config.calibrated.overruled.empty());
  CHECK(wire::load_config(config.path).hardware == HardwareOverrides{});
}

TEST_CASE("espalier.toml wins key by key over what was calibrated") {
  const Site site;
  const std::string toml = to_toml(measured(), "2026-11-23T19:00:00Z", "n1");
  auto config = site.read("[network]\nnic_gb_s = 10\n[gpu.nvidia_a100-sxm4-80gb]\nmemory_gb = 80\n", toml);
  CHECK(config.hardware.nic_gb_s == 10);
  CHECK(config.hardware.nics == 4);
  CHECK(config.hardware.gpus.at("nvidia_a100-sxm4-80gb").tflops == 250);
  CHECK(config.hardware.gpus.at("nvidia_a100-sxm4-80gb").memory_gb == 80);
  CHECK(config.calibrated.overruled == std::set<std::string>{"network.nic_gb_s"});
  // Both ends of one curve come from one place.
  config = site.read("[network]\nv_sat_mb = 20\n", toml);
  CHECK(config.hardware.v0_mb == 1);
  CHECK(config.hardware.v_sat_mb == 20);
  CHECK(config.calibrated.overruled == std::set<std::string>{"network.v0_mb", "network.v_sat_mb"});
}

TEST_CASE("a broken file of figures is told and not used") {
  const Site site;
  const auto config = site.read("[network]\nnics = 2\n", "[network]\ntp_gb_s = 300\nnic_gb_s = -1\n");
  CHECK(config.calibrated.problem.find("calibrated.toml:3: network.nic_gb_s: must be between") != std::string::npos);
  CHECK(config.hardware.nics == 2);
  CHECK(config.hardware.tp_gb_s == 0);
  CHECK(config.calibrated.used.empty());
  CHECK_THROWS_AS(cli::replace_file(site.folder + "/no/such", "x"), Error);
}

TEST_CASE("rails are calibrated by GPU type, and the site's own figure for all nodes wins") {
  const Site site;
  Findings findings;
  findings.rails["h100"] = {40, 8};
  findings.rails["l4"] = {5, 0};
  const std::string toml = to_toml(findings, "2026-11-27T19:00:00Z", "n[1-4]");
  auto config = site.read("", toml);
  CHECK(config.hardware.gpus.at("h100").nic_gb_s == 40);
  CHECK(config.hardware.gpus.at("h100").nics == 8);
  CHECK(config.hardware.gpus.at("l4").nic_gb_s == 5);
  config = site.read("[network]\nnic_gb_s = 10\n", toml);
  CHECK(config.hardware.gpus.at("h100").nic_gb_s == 0);
  CHECK(config.hardware.gpus.at("h100").nics == 8);
  CHECK(config.calibrated.overruled == std::set<std::string>{"gpu.h100.nic_gb_s", "gpu.l4.nic_gb_s"});
}
