// espalier.toml, and the file that `espalier calibrate` writes.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "planner/core/error.hpp"
#include "planner/wire/config.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {
namespace {

// A state folder of this process, whose calibrated.toml is a link to what is to be read.
class StateFolder {
 public:
  StateFolder() { require(::mkdtemp(path_) != nullptr); }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;
  ~StateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string espalier_toml() const { return std::string("[planner]\nstate_dir = \"") + path_ + "\"\n"; }
  void hold(const std::string& calibrated) const {
    const std::string link = std::string(path_) + "/calibrated.toml";
    ::unlink(link.c_str());
    require(::symlink(calibrated.c_str(), link.c_str()) == 0);
  }

 private:
  char path_[32] = "/tmp/espalier-fuzz-XXXXXX";
};

void espalier_toml(const std::string& path) {
  try {
    const wire::Config config = wire::load_config(path);
    require(config.planner_port > 0 && config.max_gpus > 0 && config.poll_seconds > 0);
  } catch (const Error&) {
  }
}

// It is taken as a whole or not at all, and is no Error.
void calibrated_toml(const std::string& path) {
  static const StateFolder folder;
  folder.hold(path);
  const MemoryFile site(folder.espalier_toml());
  const wire::Config config = wire::load_planner_config(site.path());
  const wire::Calibrated& calibrated = config.calibrated;
  require(!calibrated.path.empty() && calibrated.overruled.empty());
  if (!calibrated.problem.empty()) require(calibrated.used.empty() && config.hardware == HardwareOverrides());
}

}  // namespace

void site_toml(std::string_view input) {
  const MemoryFile file(input);
  espalier_toml(file.path());
  calibrated_toml(file.path());
}

}  // namespace espalier::fuzz
