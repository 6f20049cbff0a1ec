#include <set>

#include "planner/cli/doctor/report.hpp"
#include "tests/unit/doctor_cases.hpp"

using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

TEST_CASE("doctor: a site without fault has only findings that are well") {
  for (const Finding& found : judge(healthy())) {
    INFO(found.check << ": " << found.found);
    CHECK(found.verdict == Verdict::ok);
    CHECK(!found.found.empty());
    CHECK(found.found.back() != '.');
  }
}

TEST_CASE("doctor: each check has a name of its own") {
  std::set<std::string> names;
  for (const Check& check : checks()) CHECK(names.insert(check.name).second);
  CHECK(names.size() > 40);
}

TEST_CASE("doctor: where slurmctld does not answer that is the fault, and what needs it is skipped") {
  Facts facts = healthy();
  facts.slurm = Learned<Slurm>::unknown("configuration: Connection refused");
  facts.plugins = Learned<Plugins>::unknown("slurmctld did not tell");
  std::size_t skips = 0;
  for (const Finding& found : judge(facts)) {
    if (found.check == "slurmctld") {
      CHECK(found.verdict == Verdict::fault);
      CHECK(says(found, "Connection refused"));
      continue;
    }
    INFO(found.check << ": " << found.found);
    CHECK(found.verdict != Verdict::fault);
    skips += found.verdict == Verdict::skipped;
  }
  CHECK(skips > 20);
}

TEST_CASE("doctor: where nothing at all is known nothing is said to be well that was not looked at") {
  Facts facts;
  facts.administrator = true;
  for (const Finding& found : judge(facts)) {
    INFO(found.check << ": " << found.found);
    const bool configured = found.check == "espalier.toml" || found.check == "network";
    CHECK((configured || found.verdict == Verdict::fault || found.verdict == Verdict::skipped));
  }
}

TEST_CASE("doctor: a user sees fewer checks, and none of what only administrators can look at") {
  Facts facts = healthy();
  const std::size_t all = judge(facts).size();
  facts.administrator = false;
  const auto findings = judge(facts);
  CHECK(findings.size() < all);
  for (const Finding& found : findings) {
    CHECK(found.check != "state-folder");
    CHECK(found.verdict == Verdict::ok);
  }
}
