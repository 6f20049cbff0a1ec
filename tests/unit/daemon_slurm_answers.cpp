// What Slurm's own commands print: an empty answer, and when it is asked for again.
#include "planner/daemon/slurm_answers.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/slurm/command.h"

using namespace espalier;

namespace {

const char* const kShares = "root||\n root|root|1.0\n physics||\n  physics|ann|0.25\n";

struct Command {
  int exit_code = -1;
  std::unique_ptr<char, void (*)(void*)> text;
  explicit Command(const char* line) : text(espalier_slurm_command(line, &exit_code), std::free) {}
};

// Seconds between the questions, if each of the answers comes at once. `good`: of each whether it was one.
std::vector<int> pauses(AskingTimes& times, const std::vector<bool>& good) {
  std::vector<int> result;
  int now = 1000, before = now;
  for (const bool one : good) {
    while (!times.due(now)) ++now;
    result.push_back(now - before);
    before = now;
    times.asked(now);
    if (one) times.answered();
    else times.failed();
  }
  return result;
}

}  // namespace

TEST_CASE("a command of Slurm that fails is told apart from one that prints nothing") {
  CHECK(Command("exit 255").exit_code == 255);  // as sshare does when slurmctld does not answer
  const Command quiet("exit 0");
  CHECK(quiet.exit_code == 0);
  REQUIRE(quiet.text);
  CHECK(std::string(quiet.text.get()).empty());
  CHECK(std::string(Command("echo a; exit 1").text.get()) == "a\n");
  CHECK_FALSE(Command("exit 124").text);  // timeout(1) ended it
}

TEST_CASE("a site with accounting keeps its fair shares when sshare fails or prints nothing") {
  for (const char* accounting : {"accounting_storage/slurmdbd", "slurmdbd", "Accounting_Storage/SlurmDBD"}) {
    CHECK_FALSE(told_shares(nullptr, accounting));
    CHECK_FALSE(told_shares("", accounting));
    const auto told = told_shares(kShares, accounting);
    REQUIRE(told);
    CHECK((*told)->factors.at({"physics", "ann"}) == 0.25);
  }
  for (const char* accounting : {"accounting_storage/none", ""}) {
    REQUIRE(told_shares(nullptr, accounting));
    CHECK(*told_shares(nullptr, accounting) == nullptr);
    REQUIRE(told_shares("", accounting));
    CHECK(*told_shares("", accounting) == nullptr);
    CHECK((*told_shares(kShares, accounting))->parents.at("physics") == "root");
  }
}

TEST_CASE("a site with switches or blocks keeps its topology when scontrol prints none") {
  for (const char* plugin : {"topology/tree", "topology/block", "Topology/Tree", "tree"}) {
    CHECK_FALSE(told_topology(nullptr, plugin));
    CHECK_FALSE(told_topology("", plugin));
    CHECK_FALSE(told_topology("slurm_load_topo error: Unable to contact slurm controller\n", plugin));
    const auto told = told_topology("SwitchName=s1 Nodes=n[1-2]\n", plugin);
    REQUIRE(told);
    CHECK(told->at("n2") == std::vector<std::string>{"s1"});
  }
  for (const char* plugin : {"topology/none", "topology/flat", "topology/default", ""}) {
    CHECK_FALSE(told_topology(nullptr, plugin));
    REQUIRE(told_topology("", plugin));
    CHECK(told_topology("", plugin)->empty());
  }
  CHECK_THROWS_AS(told_topology("BlockSizes=x\n", "topology/block"), Error);
}

TEST_CASE("a site whose plugin does not tell of switches keeps them over one empty answer, and not over two") {
  for (const char* plugin : {"topology/flat", "topology/default", ""}) {
    ToldSwitches told;
    CHECK(told.take("", plugin, 1000));  // none were told yet
    CHECK(told.switches().empty());
    CHECK(told.take("SwitchName=s1 Nodes=n[1-2]\n", plugin, 1060));
    CHECK_FALSE(told.take("", plugin, 1120));
    CHECK_FALSE(told.take("", plugin, 1121));  // asked again at once, for a new node
    CHECK(told.switches().size() == 2);
    CHECK(told.take("SwitchName=s1 Nodes=n[1-3]\n", plugin, 1130));
    CHECK(told.switches().size() == 3);
    CHECK_FALSE(told.take("", plugin, 1190));
    CHECK_FALSE(told.take(nullptr, plugin, 1200));
    CHECK(told.take("", plugin, 1220));
    CHECK(told.switches().empty());
  }
  ToldSwitches tree;
  CHECK(tree.take("SwitchName=s1 Nodes=n[1-2]\n", "topology/tree", 1000));
  for (const double now : {1060.0, 1070.0, 1090.0}) CHECK_FALSE(tree.take("", "topology/tree", now));
  CHECK(tree.switches().size() == 2);
}

TEST_CASE("what failed is asked for again soon, and later each time; what was answered once a minute") {
  AskingTimes times;
  CHECK(pauses(times, {true, true, false, false, false, false, false, true, true}) ==
        std::vector<int>{0, 61, 61, 11, 21, 41, 61, 61, 61});
  CHECK(times.failed());  // it is logged once, and again after an answer
  CHECK_FALSE(times.failed());
  times.answered();
  CHECK(times.failed());
  times.asked(5000);
  CHECK(times.due(4000));  // the clock was set back
}
