// Requests for ranks that wait for spares.
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>

#include "launcher/world/server/node_spares.hpp"
#include "tests/unit/loop_until.hpp"

using namespace espalier;
using namespace std::chrono_literals;
using launcher::NodeSpares;

namespace {

// Says that it can fork when the file "go" is there, and then forks nothing.
const std::string kProgram =
    R"(until [ -e "$0/go" ]; do sleep 0.01; done; printf f >&"$ESPALIER_SPARE"; sleep 600; exit)";

struct Node {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("espalier-node-spares-" + std::to_string(::getpid()));
  const std::chrono::milliseconds longest_load;
  wire::Loop loop;
  std::vector<int> started;  // generations
  int can_fork = 0;
  NodeSpares spares{
      loop,
      {[this](const wire::RunRanks& request) { started.push_back(request.generation); }, [this] { ++can_fork; }},
      longest_load};
  wire::KeepSpares kept;

  explicit Node(std::chrono::milliseconds longest = 30s) : longest_load(longest) {
    std::filesystem::create_directory(folder);
    kept.program = {"/bin/bash", "-c", kProgram, folder};
    kept.environment = {"PATH=/usr/bin:/bin"};
    kept.folder = "/";
    kept.count = 2;
    kept.forks = true;
  }
  ~Node() {
    std::filesystem::remove_all(folder);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  void keep() { spares.ranks().keep(kept, {}, nullptr, false); }
  void loads() { std::ofstream(folder / "go").close(); }
  wire::RunRanks request(int generation, bool first = false) const {
    wire::RunRanks one;
    one.generation = generation;
    one.places.resize(1);
    one.places[0].ranks = {0, 1};
    one.program = kept.program;
    one.folder = kept.folder;
    one.first = first;
    return one;
  }
  bool until(const std::function<bool()>& condition) { return test::until(loop, condition, 120s); }
};

}  // namespace

TEST_CASE("ranks wait for a fork server that loads, and for forks 10 s at most; generation 0 never") {
  Node node;
  node.keep();
  node.spares.run(node.request(0, true));
  CHECK(node.started == std::vector<int>{0});  // it has ended what loaded
  node.keep();
  node.spares.run(node.request(1));
  CHECK(node.spares.awaits(1));
  node.loads();
  REQUIRE(node.until([&] { return node.can_fork == 1; }));
  CHECK(node.spares.awaits(1));
  CHECK(node.started.size() == 1);
  CHECK(node.until([&] { return node.started.size() == 2; }));
  CHECK_FALSE(node.spares.awaits(1));
}

TEST_CASE("a generation that ends while it waits is not started; what loads goes on, and the next one waits for it") {
  Node node;
  node.keep();
  node.spares.run(node.request(1));
  CHECK(node.spares.forget(1));
  node.spares.run(node.request(2));
  CHECK(node.spares.awaits(2));
  CHECK(node.started.empty());
}

TEST_CASE("after a generation that has waited long, the next one does not wait for what hung") {
  Node node(0ms);
  node.keep();
  node.spares.run(node.request(1));
  CHECK(node.spares.awaits(1));
  CHECK_FALSE(node.spares.forget(2));
  CHECK(node.spares.forget(1));
  CHECK_FALSE(node.spares.awaits(1));
  node.spares.run(node.request(2));
  CHECK(node.started == std::vector<int>{2});
  node.keep();  // no fork server is tried any more: what loads now is a spare of its own
  node.spares.run(node.request(3));
  CHECK(node.started == std::vector<int>{2, 3});
}
