// [health]: the site's check of nodes before their GPUs are lent.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "planner/core/schedule/move.hpp"
#include "planner/daemon/growth_obstacles.hpp"
#include "planner/daemon/node_health.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// A program of the site. It writes its argument to asked().
class Program {
 public:
  explicit Program(const std::string& body)
      : folder_(std::filesystem::temp_directory_path() / ("espalier-health-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
    write(body);
  }
  ~Program() { std::filesystem::remove_all(folder_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  std::string path() const { return (folder_ / "check").string(); }
  std::string asked() const {
    std::ifstream file(folder_ / "asked");
    std::string text;
    std::getline(file, text);
    return text;
  }
  void write(const std::string& body) {
    std::ofstream(path()) << "#!/bin/sh\nprintf %s \"$1\" > " << (folder_ / "asked").string() << "\n" << body << "\n";
    ::chmod(path().c_str(), 0700);
  }

 private:
  std::filesystem::path folder_;
};

HealthCommand::Answer run(const std::string& program, int seconds = 60) {
  wire::Loop loop;
  HealthCommand::Answer answer;
  HealthCommand command(loop, program, "n[1-2]", seconds, [&](const HealthCommand::Answer& given) {
    answer = given;
    loop.stop();
  });
  loop.run();
  return answer;
}

// n1 is held as a whole.
ClusterView three_nodes() {
  ClusterView view{{node("n1", 2), node("n2", 2), node("n3", 2)}, {}};
  view.nodes[0].gpu_owner = {9, 9};
  return view;
}

std::vector<std::string> faults(const ClusterView& view) {
  std::vector<std::string> list;
  for (const NodeView& node : view.nodes) list.push_back(node.unhealthy);
  return list;
}

using Faults = std::vector<std::string>;
const char* const kUnchecked = "it has not been checked yet";

}  // namespace

TEST_CASE("what a health check prints is read: nodes or lists of them with a reason, of those asked for alone") {
  const std::vector<std::string> asked{"n1", "n2", "n3"};
  CHECK(parse_health("", asked).empty());
  CHECK(parse_health("n[1-2] ECC errors\n\n  n3   slow   link\nn9 none asked\n", asked) ==
        std::map<std::string, std::string>{{"n1", "ECC errors"}, {"n2", "ECC errors"}, {"n3", "slow   link"}});
  CHECK(parse_health("n1", asked).at("n1") == "its health check failed");
  CHECK(parse_health("n1 first\nn1 second\n", asked).at("n1") == "first");
  CHECK(parse_health("n1 \x1b[31m" + std::string(1000, 'x'), asked).at("n1").size() == 200);
  CHECK(parse_health("n1 \x1b[31mred", asked).at("n1") == "?[31mred");
  CHECK(parse_health("n[1- broken\n", asked).empty());
}

TEST_CASE("a health check is run with the nodes; its failures are told apart") {
  Program program("echo n1 bad");
  const auto good = run(program.path());
  CHECK(good.problem.empty());
  CHECK(good.output == "n1 bad\n");
  CHECK(program.asked() == "n[1-2]");
  program.write("echo n1 bad; exit 3");
  CHECK(run(program.path()).problem == program.path() + " ended with exit code 3");
  program.write("head -c 300000 /dev/zero");
  CHECK(run(program.path()).problem == program.path() + " printed more than 256 KiB");
  program.write("trap '' TERM; sleep 600 & wait; sleep 600");
  CHECK(run(program.path(), 1).problem == program.path() + " did not end within 1 s");
  program.write("sleep 600 & echo n2 left a process behind");
  CHECK(run(program.path()).output == "n2 left a process behind\n");
  CHECK(run("/nowhere/check").problem == "/nowhere/check cannot be run");
}

TEST_CASE("nodes with idle GPUs are not lent until a check has passed, and again once its answer is old") {
  spdlog::set_level(spdlog::level::off);
  wire::Loop loop;
  Program program("echo n3 fan");
  NodeHealth health(loop, [&] { loop.stop(); });
  const auto look = [&](double now) {
    ClusterView view = three_nodes();
    health.look(view, now);
    return faults(view);
  };
  CHECK(look(100) == Faults{"", "", ""});  // no check is configured
  health.configure({program.path(), 60, 10});
  CHECK(look(100) == Faults{"", kUnchecked, kUnchecked});
  loop.run();
  CHECK(program.asked() == "n[2-3]");
  CHECK(look(101) == Faults{"", "", "fan"});
  program.write("echo n2 heat");
  CHECK(look(400) == Faults{"", "", "fan"});  // half of ten minutes is over: checked again
  loop.run();
  CHECK(look(401) == Faults{"", "heat", ""});
  // A check that fails says nothing of the nodes. What is known stays so as long as it is valid.
  program.write("exit 1");
  bool over = false;
  CHECK(look(710) == Faults{"", "heat", ""});
  const auto waited = loop.every(wire::Loop::Milliseconds(20), [&] {
    if (over) loop.stop();
    over = program.asked() == "n[2-3]";
  });
  loop.run();
  CHECK(look(1001) == Faults{"", kUnchecked, kUnchecked});
  health.configure({});
  CHECK(look(1002) == Faults{"", "", ""});
}

TEST_CASE("an unhealthy node is closed to extensions and to bases that move, and explain says why") {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.cluster = three_nodes();
  slurm.cluster.nodes[2].unhealthy = "fan";
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
  const NodeNames closed = ClosedNodes(slurm, {}).to(*slurm.alive(10));
  REQUIRE(closed);
  CHECK(*closed == std::vector<std::string>{"n3"});
  LiveJob live;
  live.job = job(10, "n1", {0, 1});
  PlannerSettings settings;
  const auto why = growth_obstacles(live, {}, slurm, nullptr, settings, 1000);
  CHECK(std::count(why.begin(), why.end(), "the site's health check keeps n3 from being lent: fan") == 1);
  CHECK(
      std::none_of(why.begin(), why.end(), [](const auto& text) { return text.starts_with("its extensions cannot"); }));
  slurm.cluster.nodes[1].gpu_owner = {9, 9};
  CHECK_THROWS_WITH_AS(place_for(live.job, {"", {"n3"}}, {}, slurm.cluster), "node n3: its health: fan", Error);
  CHECK_THROWS_AS(place_for(live.job, {"h100", {}}, {}, slurm.cluster), Error);
  slurm.cluster.nodes[2].unhealthy.clear();
  CHECK(place_for(live.job, {"", {"n3"}}, {}, slurm.cluster).size() == 1);
}
