#include "launcher/world/rank_servers.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/process/resource_limits.hpp"
#include "launcher/world/restart_wait.hpp"
#include "planner/wire/handshake.hpp"
#include "tests/unit/launcher_line.hpp"
#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace espalier::launcher;
using std::chrono::milliseconds;

namespace {

const ServerId kOther{"n2", 20};

// The steps of rank servers are started by a script. It notes each start.
struct Steps {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("espalier-" + wire::fresh_nonce());
  wire::Loop loop;
  RankServers servers;

  // So many steps start at a time.
  explicit Steps(std::size_t at_once = 64, milliseconds makes_room = std::chrono::seconds(2),
                 milliseconds heartbeat = std::chrono::seconds(1), bool own_step_here = false)
      : servers(loop, settings(at_once, makes_room, heartbeat, own_step_here), [](JobId) {}) {
    std::filesystem::create_directory(folder);
  }
  ~Steps() { std::filesystem::remove_all(folder); }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  RankServersSettings settings(std::size_t at_once, milliseconds makes_room, milliseconds heartbeat,
                               bool own_step_here) const {
    RankServersSettings own;
    own.own_step_here = own_step_here;
    own.heartbeat = heartbeat;
    own.term_to_kill = milliseconds(300);
    own.at_once = at_once;
    own.makes_room = makes_room;
    for (const char* node : {"n2", "n3", "n4", "n5"}) own.holdings.push_back({7, node, {0}});
    own.launcher = folder / "espalier-launch";
    own.node = "n1";
    own.anchor = 7;
    own.limits = {1, 2, 3};
    return own;
  }
  void script(const std::string& then, const char* name = "espalier-launch") const {
    const auto beside = folder / "new";
    std::ofstream(beside) << "#!/bin/sh\necho started >> '" << (folder / "starts").string() << "'\n" << then << "\n";
    std::filesystem::permissions(beside, std::filesystem::perms::owner_all);
    std::filesystem::rename(beside, folder / name);
  }
  int starts() const {
    std::ifstream file(folder / "starts");
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }
  bool started(int count) {
    return test::until(
        loop, [&] { return starts() == count; }, std::chrono::seconds(20));
  }
  std::shared_ptr<cases::Line> comes(const ServerId& id) {
    wire::RankServerHello hello;
    hello.node = id.node;
    hello.job = id.job;
    const auto line = std::make_shared<cases::Line>();
    servers.adopt(line, hello);
    return line;
  }
  // A generation of one rank, which notes in `lost` why it was lost.
  std::unique_ptr<Ranks> run(int generation, const ServerId& id, std::string& lost) {
    WorldRequest request;
    request.generation = generation;
    request.gpus = {{id.node, 0}};
    request.holdings = {{id.job, id.node, {0}}};
    RanksCallbacks on;
    on.ended = [](int, int) {};
    on.lost = [&lost](const std::vector<int>&, const std::string& why) { lost = why; };
    on.all_ended = [](int) {};
    return servers.run(request, std::move(on));
  }
  void pass(milliseconds time) {
    test::until(
        loop, [] { return false; }, time);
  }
};

}  // namespace

TEST_CASE("a rank server that ends is started again soon at first, and seldom where it never comes") {
  CHECK(restart_wait(0) == milliseconds(300));
  CHECK(restart_wait(1) == milliseconds(600));
  CHECK(restart_wait(4) == milliseconds(4800));
  CHECK(restart_wait(5) == milliseconds(5000));
  CHECK(restart_wait(15) == milliseconds(5000));
  CHECK(restart_wait(16) == milliseconds(10'000));
  CHECK(restart_wait(20) == milliseconds(120'000));
  CHECK(restart_wait(1'000'000) == milliseconds(120'000));
  CHECK(restart_wait(0, 0.5) == milliseconds(450));
  CHECK(restart_wait(20, 1) == milliseconds(240'000));
}

TEST_CASE("so many rank servers start at a time, and the next ones when these have come or ended") {
  Steps steps(2, std::chrono::seconds(120));
  steps.script("exec sleep 60");
  steps.servers.start();
  const auto started = [&](int count) {
    return test::until(
        steps.loop, [&] { return steps.starts() == count; }, std::chrono::seconds(10));
  };
  REQUIRE(started(2));
  steps.pass(milliseconds(300));
  CHECK(steps.starts() == 2);
  wire::RankServerHello hello;
  hello.node = "n2";
  hello.job = 7;
  const auto line = std::make_shared<cases::Line>();
  steps.servers.adopt(line, hello);
  REQUIRE(started(3));
  steps.pass(milliseconds(300));
  CHECK(steps.starts() == 3);
  steps.servers.leave();
  steps.servers.forget(7);
  steps.pass(milliseconds(300));
  CHECK(steps.starts() == 3);
}

TEST_CASE("a rank server that does not come keeps the others waiting for a while only") {
  Steps steps(1, milliseconds(200));
  steps.script("exec sleep 60");
  steps.servers.start();
  CHECK(test::until(
      steps.loop, [&] { return steps.starts() == 4; }, std::chrono::seconds(20)));
}

TEST_CASE("a rank server whose start fails once is started again") {
  Steps steps;
  steps.servers.serve(kOther, 1);
  steps.pass(milliseconds(150));  // there is no program yet
  steps.script("exec sleep 60");
  CHECK(test::until(
      steps.loop, [&] { return steps.starts() == 1; }, std::chrono::seconds(10)));
  SUBCASE("and then runs: it is not started beside itself when its keeper comes back") {
    steps.servers.serve(kOther, 1);
    steps.pass(milliseconds(500));
    CHECK(steps.starts() == 1);
  }
}

TEST_CASE("a rank server that ended, and whose next start fails, is started again") {
  Steps steps;
  steps.script("rm \"$0\"");
  steps.servers.serve(kOther, 1);
  REQUIRE(test::until(
      steps.loop, [&] { return steps.starts() == 1; }, std::chrono::seconds(10)));
  steps.pass(milliseconds(700));  // the second start has failed
  CHECK(steps.starts() == 1);
  steps.script("exec sleep 60");
  CHECK(test::until(
      steps.loop, [&] { return steps.starts() == 2; }, std::chrono::seconds(10)));
}

TEST_CASE("on a node that Slurm has taken from the job no rank server is started, until Slurm returns the node") {
  Steps steps;
  steps.script("exit 1");
  steps.servers.serve(kOther, 1);
  REQUIRE(test::until(
      steps.loop, [&] { return steps.starts() >= 2; }, std::chrono::seconds(10)));
  steps.servers.withdraw(20, {"n2"});
  steps.pass(milliseconds(200));
  const int before = steps.starts();
  steps.pass(milliseconds(2500));
  CHECK(steps.starts() == before);
  SUBCASE("Slurm says so") { steps.servers.withdraw(20, {}); }
  SUBCASE("ranks are to run there") {
    WorldRequest request;
    request.gpus = {{"n2", 0}};
    request.holdings = {{20, "n2", {0}}};
    const auto ranks = steps.servers.run(request, {[](int, int) {}, [](const auto&, const auto&) {}, [](int) {}});
    CHECK(test::until(
        steps.loop, [&] { return steps.starts() > before; }, std::chrono::seconds(10)));
    return;
  }
  CHECK(test::until(
      steps.loop, [&] { return steps.starts() > before; }, std::chrono::seconds(10)));
}

TEST_CASE("another job's rank server on a node that Slurm has taken from this one goes on") {
  Steps steps;
  steps.script("exit 1");
  steps.servers.serve(kOther, 1);
  REQUIRE(test::until(
      steps.loop, [&] { return steps.starts() >= 1; }, std::chrono::seconds(10)));
  steps.servers.withdraw(7, {"n2"});
  CHECK(test::until(
      steps.loop, [&] { return steps.starts() >= 3; }, std::chrono::seconds(10)));
}

TEST_CASE("a rank server that hangs is ended when ranks are to run there again, and its end is no loss to them") {
  Steps steps(64, std::chrono::seconds(2), milliseconds(20));
  ServerId id = kOther;
  const std::string hangs = "trap '' TERM; while :; do sleep 0.1; done";
  SUBCASE("SIGTERM ends its step") { steps.script("exec sleep 60"); }
  SUBCASE("what holds its step hangs, too") { steps.script(hangs); }
  SUBCASE("it is on the launcher's node") {
    id = {"n1", 7};
    steps.script(hangs, "espalier-ranks");
  }
  steps.servers.serve(id, 1);
  REQUIRE(steps.started(1));
  std::string lost;
  const auto first = steps.comes(id);
  auto ranks = steps.run(1, id, lost);
  REQUIRE(test::until(
      steps.loop, [&] { return !lost.empty(); }, std::chrono::seconds(20)));
  CHECK(lost == "the rank server on " + id.node + " has been silent for 10 heartbeats");
  ranks.reset();
  lost.clear();
  steps.pass(milliseconds(1000));
  CHECK(steps.starts() == 1);  // its node may be cut off
  ranks = steps.run(2, id, lost);
  REQUIRE(steps.started(2));
  CHECK(lost.empty());
  CHECK(steps.comes(id)->types().find(wire::RunRanks::type) != std::string::npos);
}

TEST_CASE("the end of a rank server whose message made no sense is no loss to the ranks that wait for the next one") {
  Steps steps;
  steps.script("sleep 1; exit 1");
  steps.servers.serve(kOther, 1);
  REQUIRE(steps.started(1));
  std::string lost;
  const auto first = steps.comes(kOther);
  auto ranks = steps.run(1, kOther, lost);
  wire::Frame senseless;
  senseless.type = wire::RankOutput::type;
  senseless.body = {{"error", "no"}, {"text", 5}};
  first->on_frame(senseless);
  CHECK(lost.find("the rank server on n2: ") == 0);
  ranks.reset();
  lost.clear();
  ranks = steps.run(2, kOther, lost);
  REQUIRE(steps.started(2));
  CHECK(lost.empty());
}

TEST_CASE(
    "where the launcher's task is bound to some of the GPUs, the server beside it is a step that has all of them") {
  Steps steps(64, std::chrono::seconds(2), std::chrono::seconds(1), true);
  steps.script("echo \"$@\" > '" + (steps.folder / "words").string() + "'; exec sleep 60");
  steps.servers.serve({"n1", 7}, 4);
  REQUIRE(steps.started(1));
  std::string words;
  CHECK(test::until(
      steps.loop,
      [&] {
        std::ifstream file(steps.folder / "words");
        return std::getline(file, words) && !file.eof();
      },
      std::chrono::seconds(10)));
  CHECK(words.starts_with("step -- srun --jobid=7 "));
  CHECK(words.find(" --input=all ") != std::string::npos);
  CHECK(words.find(" -w n1 --gres=gpu:4 ") != std::string::npos);
  CHECK(words.ends_with("/espalier-ranks --with-launcher"));
}

TEST_CASE("spares get the limits that the job was submitted with, not the launcher's own") {
  Steps steps;
  const auto line = std::make_shared<cases::Line>();
  wire::RankServerHello hello;
  hello.node = "n2";
  hello.job = 20;
  steps.servers.adopt(line, hello);
  steps.servers.keep_spares({"train"}, {});
  REQUIRE(line->sent.back().type == wire::KeepSpares::type);
  CHECK(wire::from_frame<wire::KeepSpares>(line->sent.back()).limits == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("a process may open many descriptors, as far as the hard limit allows") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_cur, 256);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  allow_many_descriptors();
  rlimit now{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &now) == 0);
  CHECK(now.rlim_cur == std::min<rlim_t>(before.rlim_max, 65536));
  CHECK(now.rlim_max == before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}
