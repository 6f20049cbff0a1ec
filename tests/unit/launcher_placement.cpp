#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "launcher/world/gpu_reach.hpp"
#include "launcher/world/placement.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/thread_time.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

WorldRequest request() {
  WorldRequest r;
  r.holdings = {{10, "n1", {0, 1}}, {11, "n1", {2, 3}}, {12, "n2", {0, 1, 2}}};
  r.gpus = {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n2", 0}, {"n2", 2}};
  r.program = {"train", "a.toml"};
  r.directory = "/tmp/d";
  return r;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

}  // namespace

TEST_CASE("each job of a node has a server of its own: the anchor, and any number of extensions beside it") {
  CHECK(servers_of(request()) == std::vector<ServerId>{{"n1", 10}, {"n1", 10}, {"n1", 11}, {"n2", 12}, {"n2", 12}});
  WorldRequest more = request();
  more.holdings.push_back({13, "n2", {3}});
  more.gpus.push_back({"n2", 3});
  CHECK(servers_of(more).back() == ServerId{"n2", 13});
  more.gpus.push_back({"n3", 0});
  CHECK_THROWS_WITH_AS(servers_of(more), "plan: GPU n3/0 belongs to no allocation of this job", Error);
}

TEST_CASE("a step has all GPUs of its job on the node, and is bound to CPUs only where the site does not") {
  CHECK(joined(step_command(11, "n1", 2, false, {"/opt/espalier-ranks"})) ==
        "srun --jobid=11 --overlap --mpi=none --mem=0 --input=none --quiet -N1 -n1 -w n1 --gres=gpu:2 "
        "/opt/espalier-ranks ");
  CHECK(joined(step_command(11, "n1", 2, true, {"x"})).find(" --cpu-bind=none x ") != std::string::npos);
  CHECK(joined(step_command(11, "n1", 2, false, {"x"}, true)).find(" --input=all ") != std::string::npos);
}

TEST_CASE("every GPU of the job has its Slurm job, used or not") {
  const wire::GpuJobs jobs = jobs_of(request());
  CHECK(jobs.at("n1/0") == 10);
  CHECK(jobs.at("n2/0") == 12);
  std::size_t held = 0;
  for (const Holding& holding : request().holdings) held += holding.gpus.size();
  CHECK(jobs.size() == held);
}

TEST_CASE("GPUs of one job that do not reach each other's memory have numbers of their own") {
  WorldRequest r = request();
  r.holdings = {{10, "n1", {3, 0, 1, 2}}, {11, "n1", {4, 5}}, {12, "n2", {0, 1, 2}}};
  r.islands = {{"n1/10", {0, 0, 1, 1}}, {"n1/11", {7, 7}}, {"n3/12", {0, 1, 2}}};
  wire::GpuJobs jobs = jobs_of(r);
  CHECK(jobs.at("n1/0") == jobs.at("n1/1"));
  CHECK(jobs.at("n1/2") == jobs.at("n1/3"));
  CHECK(jobs.at("n1/0") != jobs.at("n1/2"));
  CHECK(jobs.at("n1/0") != 10);
  CHECK(jobs.at("n1/4") == 11);  // all reach each other
  CHECK(jobs.at("n1/5") == 11);
  CHECK(jobs.at("n2/0") == 12);  // what is known is of another node
  r.islands = {{"n1/10", {0, 1, 2, 3}}, {"n1/11", {0, 1}}, {"n2/12", {0, 1}}};
  jobs = jobs_of(r);
  std::set<JobId> numbers;
  for (int gpu = 0; gpu < 6; ++gpu) numbers.insert(jobs.at("n1/" + std::to_string(gpu)));
  CHECK(numbers.size() == 6);
  CHECK(jobs.at("n2/1") == 12);  // the rank did not see all GPUs of its job
}

TEST_CASE("what ranks said of GPUs is kept for as long as the job has them") {
  GpuReach reach;
  reach.take_over({{"n3/9", {0, 1}}, {"n1/10", {0, 1}}}, true);
  CHECK(reach.jobs_reach());
  reach.heard({"n1", 10}, wire::Ready{{0, 0, 1, 1}});
  reach.heard({"n1", 11}, wire::Ready{{0, 1}});
  CHECK(reach.of({{10, "n1", {0, 1, 2, 3}}, {9, "n3", {0, 1}}}) ==
        wire::GpuIslands{{"n1/10", {0, 0, 1, 1}}, {"n3/9", {0, 1}}});
  reach.heard({"n3", 9}, wire::Ready{});  // a GPU that was off the bus is back
  CHECK_FALSE(reach.jobs_reach());
  CHECK(reach.all().size() == 1);
  CHECK(reach.of({{10, "n2", {0}}}).empty());
  CHECK(reach.all().empty());
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

TEST_CASE("the ranks of 2,048 nodes are placed in a moment") {
  WorldRequest r;
  for (int node = 0; node < 2048; ++node) {
    const std::string name = "node" + std::to_string(node);
    r.holdings.push_back({static_cast<JobId>(1000 + node), name, {0, 1, 2, 3, 4, 5, 6, 7}});
    for (int gpu = 7; gpu >= 0; --gpu) r.gpus.push_back({name, gpu});
  }
  const double start = wire::thread_seconds();
  const auto servers = servers_of(r);
  const auto places = visible_places(r);
  CHECK(wire::thread_seconds() - start < 0.5);
  REQUIRE(servers.size() == 16384);
  CHECK(servers[8003] == ServerId{"node1000", 2000});
  CHECK(places[8003] == 4);
}
