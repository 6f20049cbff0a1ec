#include "tests/unit/doctor_cases.hpp"

using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

namespace {
Finding with(const char* hidden) {
  return after("private-data", [hidden](Facts&, Slurm& slurm) { slurm.settings["PrivateData"] = hidden; });
}
}  // namespace

TEST_CASE("doctor: launchers may ask slurmctld for partitions and nodes") {
  CHECK(with("none").verdict == Verdict::ok);
  CHECK(with("jobs,usage").verdict == Verdict::ok);
  auto found = with("jobs,nodes,partitions");
  CHECK(found.verdict == Verdict::fault);
  CHECK(advises(found, kSlurmConf, "PrivateData=jobs"));
  found = with("all");
  CHECK(found.verdict == Verdict::fault);
  CHECK(advises(found, kSlurmConf, "PrivateData=none"));
  found = with("nodes");
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "movable jobs do not start"));
}
