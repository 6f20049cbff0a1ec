#include <doctest/doctest.h>

#include <algorithm>

#include "launcher/world_command.hpp"
#include "planner/core/error.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

WorldRequest request() {
  WorldRequest r;
  r.anchor = 10;
  r.holdings = {{10, "n1", {0, 1}}, {11, "n1", {2, 3}}, {12, "n2", {0, 1, 2}}};
  r.gpus = {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n2", 0}, {"n2", 2}};
  r.program = {"train", "a.toml"};
  r.launcher = "/opt/espalier-launch";
  r.mpirun = "mpirun";
  r.directory = "/tmp/d";
  return r;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

}  // namespace

TEST_CASE("orted runs in the anchor where that has GPUs, else in the extension") {
  const auto owners = node_owners(request());
  CHECK(owners.at("n1") == NodeOwner{10, 2});
  CHECK(owners.at("n2") == NodeOwner{12, 3});
}

TEST_CASE("one application per stretch of ranks, nested steps only for extensions on the anchor's node") {
  const std::string text = joined(mpirun_command(request()));
  CHECK(text.find("-np 2 --host n1:2 /opt/espalier-launch rank -- train a.toml : ") != std::string::npos);
  CHECK(text.find(": -np 1 --host n1:1 /opt/espalier-launch step -- srun --jobid=11 ") != std::string::npos);
  CHECK(text.find("--gres=gpu:2 train a.toml : -np 2 --host n2:2 /opt/espalier-launch rank -- train a.toml ") !=
        std::string::npos);
  CHECK(text.find("orte_enable_recovery 1") != std::string::npos);
  CHECK(text.find("btl_tcp_if_include") == std::string::npos);
  WorldRequest first = request();
  first.first = true;
  CHECK(joined(mpirun_command(first)).find("orte_enable_recovery") == std::string::npos);
  CHECK(joined(mpirun_command(first)).find("-np 2 --host n1:2 train a.toml : ") != std::string::npos);
  WorldRequest with_network = request();
  with_network.network = "10.0.0.0/8";
  CHECK(joined(mpirun_command(with_network)).find("btl_tcp_if_include 10.0.0.0/8") != std::string::npos);
}

TEST_CASE("a rank's GPU is counted among those of the job whose step it runs in") {
  CHECK(visible_places(request()) == std::vector<int>{0, 1, 0, 0, 2});
  WorldRequest smaller = request();
  smaller.gpus = {{"n1", 1}, {"n1", 3}};  // the first of its node, and the first of the extension's, are not used
  CHECK(visible_places(smaller) == std::vector<int>{1, 1});
  smaller.holdings = {{10, "n1", {5, 1}}, {11, "n1", {3, 2}}};  // in no order, and not from 0 on
  smaller.gpus = {{"n1", 5}, {"n1", 1}, {"n1", 3}};
  CHECK(visible_places(smaller) == std::vector<int>{1, 0, 1});
  smaller.gpus = {{"n1", 4}};
  CHECK_THROWS_WITH_AS(visible_places(smaller), "plan: GPU n1/4 belongs to no allocation of this job", Error);
}

TEST_CASE("GPUs of nobody, and two extensions on a node without the anchor, are refused") {
  WorldRequest r = request();
  r.gpus.push_back({"n3", 0});
  CHECK_THROWS_AS(mpirun_command(r), Error);
  r = request();
  r.holdings.push_back({13, "n2", {3}});
  r.gpus.push_back({"n2", 3});
  CHECK_THROWS_WITH_AS(mpirun_command(r),
                       "plan: node n2 would need two extensions of one job, which is not supported; give one back",
                       Error);
}
