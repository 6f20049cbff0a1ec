// Commands on a host without a usable configuration of Slurm.
#include "planner/cli/start_slurm.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "planner/cli/job_operand.hpp"
#include "planner/cli/live_cluster.hpp"
#include "planner/core/error.hpp"

using namespace espalier;

namespace {

// SLURM_CONF, for the life of this object.
class SlurmConf {
 public:
  explicit SlurmConf(const std::string& path) {
    if (const char* const given = std::getenv("SLURM_CONF")) before_ = given;
    ::setenv("SLURM_CONF", path.c_str(), 1);
  }
  ~SlurmConf() {
    if (before_.empty()) ::unsetenv("SLURM_CONF");
    else ::setenv("SLURM_CONF", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("without a configuration of Slurm a command fails with a remedy, and the process goes on") {
    const SlurmConf conf("/nonexistent/slurm.conf");
    CHECK_THROWS_WITH_AS(cli::read_live_cluster(), doctest::Contains("Slurm: no usable configuration on this host ("),
                         Error);
    CHECK_THROWS_WITH_AS(cli::job_number("4711_3"), doctest::Contains(", or give the task's own job id"), Error);
    CHECK(cli::job_number("4711") == 4711);
  }
}
