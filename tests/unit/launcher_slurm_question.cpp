#include "launcher/recovery/slurm_question.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace espalier::launcher;
using std::chrono::milliseconds;

namespace {

// A slurmctld that answers when the test says so.
struct Slurm {
  wire::Loop loop;
  std::vector<SlurmQuestion::Said> asked;
  std::string log;
  SlurmQuestion question{loop, [this](const std::set<JobId>&, SlurmQuestion::Said said) { asked.push_back(said); }};

  void put(const std::set<JobId>& jobs, milliseconds late = milliseconds(60'000),
           milliseconds most = milliseconds(60'000), const std::string& who = "") {
    question.put(
        jobs, {late, most}, [this] { log += "late "; },
        [this, who](const SlurmAnswer& answer) { log += who + (answer.away.empty() ? "said " : answer.away + " "); });
  }
  void pass(milliseconds time) {
    test::until(
        loop, [] { return false; }, time);
  }
};

}  // namespace

TEST_CASE("Slurm's answer comes once") {
  Slurm slurm;
  slurm.put({7, 20});
  REQUIRE(slurm.asked.size() == 1);
  slurm.asked[0]({});
  slurm.asked[0]({});
  CHECK(slurm.log == "said ");
}

TEST_CASE("a slow slurmctld is not asked again: its late answer counts") {
  Slurm slurm;
  slurm.put({7, 20}, milliseconds(20));
  slurm.pass(milliseconds(100));
  CHECK(slurm.log == "late ");
  slurm.put({7, 20});  // a try that failed at once is followed by the next
  slurm.put({7});
  CHECK(slurm.asked.size() == 1);
  slurm.asked[0]({});
  CHECK(slurm.log == "late said ");
}

TEST_CASE("an answer that has come is not late, and the next question is asked anew") {
  Slurm slurm;
  slurm.put({7}, milliseconds(20), milliseconds(40));
  slurm.asked[0]({.closing = {}, .withdrawn = {}, .away = "refused"});
  slurm.pass(milliseconds(100));
  CHECK(slurm.log == "refused ");
  slurm.put({7});
  REQUIRE(slurm.asked.size() == 2);
  slurm.asked[1]({});
  CHECK(slurm.log == "refused said ");
}

TEST_CASE("a slurmctld that never answers is waited for as long as it may take, and asked nothing meanwhile") {
  Slurm slurm;
  slurm.put({7}, milliseconds(10), milliseconds(50));
  slurm.pass(milliseconds(150));
  CHECK(slurm.log == "late it does not answer ");
  slurm.put({7});
  CHECK(slurm.asked.size() == 1);
  slurm.asked[0]({});
  CHECK(slurm.log == "late it does not answer said ");
}

TEST_CASE("a question about more jobs is asked, and an answer to the one before is none to it") {
  Slurm slurm;
  slurm.put({7}, milliseconds(60'000), milliseconds(60'000), "first ");
  slurm.put({7, 20}, milliseconds(60'000), milliseconds(60'000), "second ");
  REQUIRE(slurm.asked.size() == 2);
  slurm.asked[0]({});
  CHECK(slurm.log.empty());
  slurm.asked[1]({});
  CHECK(slurm.log == "second said ");
}
