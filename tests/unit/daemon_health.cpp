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

// Whether the process with this number ends. Its parent may leave it as a zombie.
bool ends(const std::string& number) {
  for (int i = 0; i < 6000; ++i) {
    std::ifstream file("/proc/" + std::to_string(std::stoi(number)) + "/stat");
    std::string id, name, state;
    if (!(file >> id >> name >> state) || state == "Z" || state == "X") return true;
    ::usleep(10000);
  }
  return false;
}

// n1 is held as a whole.
ClusterView three_nodes() {
  ClusterView view{{node("n1", 2), node("n2", 2), node("n3", 2)}, {}, {}};
  view.nodes[0].gpu_owner = {9, 9};
  return view;
}

std::vector<std::string> faults(const ClusterView& view) {
  std::vector<std::string> list;
  for (const NodeView& node : view.nodes) list.push_back(node.unhealthy);
  return list;
}

using Faults = std::vector<std::string>;
const char* const kUnchecked = "the node has not been checked yet";

}  // namespace

TEST_CASE("what a health check prints is read: nodes or lists of them, with a reason") {
  const std::set<std::string> cluster{"n1", "n2", "n3"};
  CHECK(parse_health("", cluster).empty());
  CHECK(parse_health("n[1-2] ECC errors\n\n  n3   slow   link\n", cluster) ==
        std::map<std::string, std::string>{{"n1", "ECC errors"}, {"n2", "ECC errors"}, {"n3", "slow   link"}});
  CHECK(parse_health("n1", cluster).at("n1") == "the health check gives no reason");
  CHECK(parse_health("n1 first\nn1 second\n", cluster).at("n1") == "first");
  CHECK(parse_health("n1 \x1b[31m" + std::string(1000, 'x'), cluster).at("n1").size() == 200);
  CHECK(parse_health("n1 \x1b[31mred", cluster).at("n1") == "?[31mred");
  // What would otherwise pass for "all nodes are healthy".
  for (const std::string line : {"error: cannot ask the nodes", "n1.site.org ECC errors", "n[1- ECC errors",
                                 "n[1-4] ECC errors", "n[1-99999999] ECC errors"})
    CHECK_THROWS_AS_MESSAGE(parse_health("n2 heat\n" + line + "\n", cluster), Error, line);
  CHECK_THROWS_WITH_AS(parse_health("n9 heat", cluster),
                       "it printed \"n9 heat\", which begins with no node's name as Slurm has it", Error);
}

TEST_CASE("a health check is run with the nodes; its failures are told apart") {
  Program program("echo n1 bad");
  const auto good = run(program.path());
  CHECK(good.problem.empty());
  CHECK(good.output == "n1 bad\n");
  CHECK(program.asked() == "n[1-2]");
  program.write("echo n1 bad; exit 3");
  CHECK(run(program.path()).problem == program.path() + " ended with exit code 3");
  for (const char* much : {"head -c 300000 /dev/zero", "yes"}) {  // the second does not end by itself
    program.write(much);
    CHECK(run(program.path()).problem == program.path() + " printed more than 256 KiB");
  }
  program.write("trap '' TERM; sleep 600 & wait; sleep 600");
  CHECK(run(program.path(), 1).problem == program.path() + " did not end within 1 s");
  CHECK(run("/nowhere/check").problem == "/nowhere/check cannot be run");
}

TEST_CASE("what a health check leaves behind is ended, after its own end and with its owner") {
  Program program("sleep 600 & echo $!");
  CHECK(ends(run(program.path()).output));
  program.write("sleep 600 & echo $! > $(dirname $0)/asked; wait");
  wire::Loop loop;
  {
    const HealthCommand command(loop, program.path(), "n1", 60, [](const HealthCommand::Answer&) {});
    const auto waited = loop.every(wire::Loop::Milliseconds(10), [&] {
      if (std::atoi(program.asked().c_str()) > 0) loop.stop();
    });
    loop.run();
  }
  CHECK(ends(program.asked()));
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
  const HealthRules rules{program.path(), 60, 10};
  health.configure(rules);
  CHECK(look(100) == Faults{"", kUnchecked, kUnchecked});
  loop.run();
  CHECK(program.asked() == "n[2-3]");
  CHECK(look(101) == Faults{"", "", "fan"});
  program.write("echo n2 heat; echo n1 held, but bad");
  CHECK(look(399) == Faults{"", "", "fan"});
  CHECK_FALSE(health.checking());
  CHECK(look(400) == Faults{"", "", "fan"});  // half of ten minutes is over: checked again
  loop.run();
  CHECK(look(401) == Faults{"held, but bad", "heat", ""});
  // A check that fails says nothing of the nodes. What is known counts as long as it is valid.
  for (const char* failure : {"exit 1", "echo n3 fan; echo oops"}) {
    program.write(failure);
    health.configure(rules);
    CHECK(look(710) == Faults{"held, but bad", "heat", ""});
    loop.run();
    CHECK(look(711) == Faults{"held, but bad", "heat", ""});
  }
  CHECK(look(1000) == Faults{"", kUnchecked, kUnchecked});
  loop.run();
  CHECK(look(399) == Faults{"", kUnchecked, kUnchecked});  // the clock was set back
  loop.run();
  health.configure({});
  CHECK(look(1002) == Faults{"", "", ""});
}

TEST_CASE("after each failure in a row a health check rests for longer; SIGHUP tries it at once") {
  spdlog::set_level(spdlog::level::off);
  wire::Loop loop;
  const Program program("exit 1");
  NodeHealth health(loop, [&] { loop.stop(); });
  const HealthRules rules{program.path(), 60, 10};
  health.configure(rules);
  const auto checks_at = [&](double now) {
    ClusterView view = three_nodes();
    health.look(view, now);
    return health.checking();
  };
  double now = 0;
  for (const double rest : {70, 80, 100, 140, 220, 380, 700, 700}) {
    REQUIRE(checks_at(now));
    loop.run();
    CHECK_FALSE(checks_at(now + rest - 1));
    now += rest;
  }
  health.configure(rules);
  CHECK(checks_at(now - 1));
}

TEST_CASE("explain names the nodes that are unfit for a job, and none that Slurm does not know") {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.cluster = three_nodes();
  run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
  LiveJob live;
  live.job = job(10, "n1", {0, 1});
  const std::string words =
      ": its workers died there again and again, or GPUs there have errors; it gets no GPUs there for up to an hour";
  const auto tells = [&](const std::string& text) {
    const auto why = growth_obstacles(view_of(live), {}, &slurm, nullptr, {}, 1000);
    return std::count(why.begin(), why.end(), text);
  };
  live.job.unfit = {{"nowhere", 0}};
  CHECK(tells("nowhere" + words) == 0);
  live.job.unfit = {{"n3", 1}, {"nowhere", 0}, {"n2", 0}, {"n3", 0}};
  CHECK(tells("n[2-3]" + words) == 1);
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
  const auto why = growth_obstacles(view_of(live), {}, &slurm, nullptr, settings, 1000);
  CHECK(std::count(why.begin(), why.end(), "the site's health check keeps n3 from being lent: fan") == 1);
  CHECK(
      std::none_of(why.begin(), why.end(), [](const auto& text) { return text.starts_with("its extensions cannot"); }));
  slurm.cluster.nodes[1].gpu_owner = {9, 9};
  CHECK_THROWS_WITH_AS(place_for(live.job, {"", {"n3"}}, {}, slurm.cluster),
                       "node n3: the site's health check keeps bases from it: fan", Error);
  CHECK_THROWS_AS(place_for(live.job, {"h100", {}}, {}, slurm.cluster), Error);
  slurm.cluster.nodes[2].unhealthy.clear();
  CHECK(place_for(live.job, {"", {"n3"}}, {}, slurm.cluster).size() == 1);
}
