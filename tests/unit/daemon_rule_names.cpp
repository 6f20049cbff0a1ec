// Names in [share] and [objective] that Slurm does not know.
#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "planner/daemon/rule_names.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

const SlurmNames kKnown{{"root", "physics", "chemistry"}, {"normal", "short"}, {"main", "elastic"}};

ShareRule rule(std::vector<std::string> accounts, std::vector<std::string> qos, std::vector<std::string> partitions) {
  ShareRule one;
  one.name = "a rule";
  one.accounts = std::move(accounts);
  one.qos = std::move(qos);
  one.partitions = std::move(partitions);
  return one;
}

}  // namespace

TEST_CASE("names of rules: those that Slurm knows are not warned of") {
  ShareRules share;
  share.rules = {rule({"physics"}, {"short"}, {"main"})};
  share.rules[0].of_partitions = {"elastic"};
  share.accounts = {{"chemistry", 4}};
  Objective objective;
  objective.account_weights = {{"physics", 2}};
  objective.qos_weights = {{"normal", 2}};
  CHECK(unknown_names(share, objective, kKnown).empty());
}

TEST_CASE("names of rules: each unknown one is told with its place, what follows, and a command") {
  ShareRules share;
  share.rules = {rule({"Physics", "biology", "biology"}, {"shrt"}, {"mian"})};
  share.rules[0].of_partitions = {"old"};
  share.accounts = {{"arts", 4}};
  Objective objective;
  objective.account_weights = {{"geology", 2}};
  objective.qos_weights = {{"long", 2}};
  CHECK(
      unknown_names(share, objective, kKnown) ==
      std::vector<std::string>{
          R"([share] rule "a rule": Slurm has no account "Physics" (it has "physics"); no job is admitted by it; sacctmgr show account lists those that it has)",
          R"([share] rule "a rule": Slurm has no account "biology"; no job is admitted by it; sacctmgr show account lists those that it has)",
          R"([share] rule "a rule": Slurm has no QOS "shrt"; no job is admitted by it; sacctmgr show qos lists those that it has)",
          R"([share] rule "a rule": Slurm has no partition "mian"; no job is admitted by it; sinfo lists those that it has)",
          R"([share] rule "a rule": Slurm has no partition "old"; the rule has no nodes of it; sinfo lists those that it has)",
          R"([share] accounts: Slurm has no account "arts"; it counts for no job; sacctmgr show account lists those that it has)",
          R"([objective] account_weights: Slurm has no account "geology"; it counts for no job; sacctmgr show account lists those that it has)",
          R"([objective] qos_weights: Slurm has no QOS "long"; it counts for no job; sacctmgr show qos lists those that it has)"});
}

TEST_CASE("names of rules: without accounting only partitions are looked at") {
  ShareRules share;
  share.rules = {rule({"biology"}, {"shrt"}, {"mian"})};
  const auto warnings = unknown_names(share, {}, {{}, {}, {"main"}});
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("partition \"mian\"") != std::string::npos);
}

TEST_CASE("names of rules: at most 20 are told, and how many more there are") {
  ShareRules share;
  for (int i = 0; i < 1000; ++i) share.accounts["a" + std::to_string(i)] = 1;
  const auto warnings = unknown_names(share, {}, kKnown);
  REQUIRE(warnings.size() == 21);
  CHECK(warnings.back() == "[share] and [objective]: Slurm does not know 980 more of their names");
}

TEST_CASE("names of rules: Slurm is asked only where rules name somebody, and an answer to older rules is dropped") {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("names", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  auto state = std::make_shared<SlurmState>();
  state->names = kKnown;
  wire::Loop loop;
  SlurmAgent slurm(loop, std::make_unique<TestSlurm>(state));
  RuleNames names(loop, slurm);
  names.check({}, {});
  ShareRules older, newer;
  older.accounts = {{"older", 1}};
  newer.accounts = {{"newer", 1}};
  names.check(older, {});
  names.check(newer, {});
  // The agent answers in order, so the answers to both questions have come when this one has.
  slurm.names([&](const SlurmAgent::Names&) { loop.stop(); });
  const auto limit = loop.after(wire::Loop::Milliseconds(20'000), [&] { loop.stop(); });
  loop.run();
  spdlog::set_default_logger(before);
  CHECK(state->asked_names == 3);
  CHECK(text.str().find("\"newer\"") != std::string::npos);
  CHECK(text.str().find("\"older\"") == std::string::npos);
}
