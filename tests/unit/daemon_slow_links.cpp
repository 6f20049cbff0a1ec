// What is known of slow links, for how long, and who is kept from them.
#include <doctest/doctest.h>

#include "planner/daemon/slow_links.hpp"
#include "planner/wire/links_field.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;
using Names = std::vector<std::string>;

namespace {

Site site(int nodes = 4) {
  ClusterView view;
  for (int i = 1; i <= nodes; ++i) view.nodes.push_back(node("n" + std::to_string(i), 4));
  return site_from_view(view, {}).site;
}

// One user's jobs look, and the rest is asked.
struct Case {
  Site where = site();
  SlowLinks links;
  int number = 0;
  const SlowPaths& look(double now, const std::vector<LinkFigure>& figures, JobId job = 10, uid_t user = 1000) {
    return links.note(user, job, 1, {++number, figures}, where, now);
  }
  Names closed(std::set<std::string> held, double now, uid_t user = 1000) const {
    return links.closed_to(user, held, now);
  }
};

std::vector<LinkFigure> of_n3(double gb_s) { return {{"n1", "n2", 10}, {"n2", "n3", gb_s}, {"n1", "n3", gb_s}}; }

}  // namespace

TEST_CASE("a link is slow where three looks agree, and what the user's jobs grow onto avoids it for an hour") {
  Case one;
  CHECK(one.look(100, of_n3(2)).nodes.empty());
  CHECK(one.closed({"n1"}, 100).empty());
  CHECK(one.look(130, of_n3(1)).nodes.empty());
  const SlowPaths& found = one.look(160, of_n3(1));
  REQUIRE(found.nodes.size() == 1);
  CHECK(found.nodes[0].node == "n3");
  CHECK(found.nodes[0].share == doctest::Approx(0.2));  // the best of them
  CHECK(one.closed({"n1"}, 200) == Names{"n3"});
  CHECK(one.closed({}, 200) == Names{"n3"});
  CHECK(one.closed({"n3"}, 200).empty());  // it has the node already
  CHECK(one.closed({"n1"}, 200, 1001).empty());
  CHECK(one.closed({"n1"}, 160 + 3599) == Names{"n3"});
  CHECK(one.closed({"n1"}, 160 + 3600).empty());
  CHECK(one.links.all(160 + 3600).empty());
  const auto all = one.links.all(200);
  REQUIRE(all.size() == 1);
  CHECK(all.at("n3").to == std::set<std::string>{"n1", "n2"});
  CHECK(all.at("n3").jobs == 1);
  CHECK(all.at("n3").share == doctest::Approx(0.2));
}

TEST_CASE("the best of the last three looks counts: one that others disturbed does not, and a link may recover") {
  Case one;
  one.look(100, of_n3(9));
  one.look(200, of_n3(1));
  CHECK(one.look(300, of_n3(1)).nodes.empty());
  CHECK(one.look(400, of_n3(1)).nodes.size() == 1);
  CHECK(one.look(500, of_n3(9)).nodes.empty());
  CHECK(one.closed({"n1"}, 500).empty());
}

TEST_CASE("a look counts once, however often it is told") {
  Case one;
  one.look(100, of_n3(1));
  CHECK(one.links.note(1000, 10, 1, {one.number, of_n3(1)}, one.where, 110).nodes.empty());
  CHECK(one.links.note(1000, 10, 1, {}, one.where, 120).nodes.empty());  // the generation has not looked
  CHECK(one.links.note(1000, 10, 2, {one.number, of_n3(1)}, one.where, 130).nodes.empty());
  CHECK(one.links.note(1000, 10, 3, {one.number, of_n3(1)}, one.where, 140).nodes.size() == 1);
}

TEST_CASE("what a generation measured is compared with what the ones before it have, for two hours") {
  Case one;
  one.look(100, {{"n1", "n2", 10}});
  for (const double now : {200, 250}) one.look(now, {{"n1", "n3", 1}});
  CHECK(one.look(300, {{"n1", "n3", 1}}).nodes.size() == 1);
  Case late;
  late.look(100, {{"n1", "n2", 10}});
  for (const double now : {7250, 7260}) late.look(now, {{"n1", "n3", 1}});
  CHECK(late.look(7301, {{"n1", "n3", 1}}).nodes.empty());
  Case seldom;  // profile.links = 1800
  for (const double now : {0, 1900, 3800}) seldom.look(now, of_n3(1));
  CHECK(seldom.look(5700, of_n3(1)).nodes.size() == 1);
}

TEST_CASE("a slow link of a pair closes its other end to a job on one end, and to no other job") {
  Case one;
  for (const double now : {100, 150, 200}) one.look(now, {{"n1", "n2", 10}, {"n3", "n1", 1}, {"n2", "n3", 9}});
  CHECK(one.closed({"n1"}, 300) == Names{"n3"});
  CHECK(one.closed({"n3", "n4"}, 300) == Names{"n1"});
  CHECK(one.closed({"n2", "n4"}, 300).empty());
  CHECK(one.closed({"n1", "n3"}, 300).empty());
  const auto all = one.links.all(300);
  REQUIRE(all.size() == 2);
  CHECK(all.at("n1").to == std::set<std::string>{"n3"});
  CHECK(all.at("n3").to == std::set<std::string>{"n1"});
}

TEST_CASE("findings of two jobs are counted, and those of one are forgotten with it alone") {
  Case one;
  for (const double now : {100, 150, 200}) one.look(now, of_n3(2));
  for (const double now : {300, 350, 400}) one.look(now, of_n3(1), 11, 1001);
  CHECK(one.links.all(500).at("n3").jobs == 2);
  CHECK(one.links.all(500).at("n3").share == doctest::Approx(0.1));
  CHECK(one.links.all(200 + 3600).at("n3").jobs == 1);
  CHECK(one.closed({"n1"}, 200 + 3600).empty());
  CHECK(one.closed({"n1"}, 200 + 3600, 1001) == Names{"n3"});
}

TEST_CASE("a hostile user's looks cost a bounded amount, and its oldest jobs go first") {
  Case one;
  one.where = site(40);
  for (JobId job = 1; job <= 200; ++job)
    for (int i = 0; i < 3; ++i) one.look(job, of_n3(1), job);
  CHECK(one.links.all(201).at("n3").jobs == 32);
  // A star: n1 and n2 are fast, all other links of n1 are slow. Every look has other ones.
  Case star;
  star.where = site(1500);
  for (int round = 0; round < 6; ++round)
    for (int i = 0; i < 3; ++i) {
      std::vector<LinkFigure> figures = {{"n1", "n2", 10}, {"n3", "n4", 10}, {"n5", "n6", 10}};
      for (int to = 7; to < 250; ++to)
        figures.push_back({"n1", "n" + std::to_string(to + 240 * round), 10.0 - 9 * (to % 4 > 2)});
      star.look(round, figures);
    }
  CHECK(star.closed({"n1"}, 10).size() <= 64);
  CHECK_FALSE(star.closed({"n1"}, 10).empty());
}

TEST_CASE("a job's profile tells its looks; the node is named, and no other job of that user grows onto it") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    for (const char* name : {"n3", "n4"}) slurm.cluster.nodes.push_back(node(name, 4));
    run_job(slurm, slurm_job(21, 1000, {{21, "n2", {0, 1}}}, "espalier:ext:10:ab"));
    run_job(slurm, slurm_job(22, 1000, {{22, "n3", {0, 1}}}, "espalier:ext:10:ab"));
    for (const JobId id : {11u, 12u})
      run_job(slurm, slurm_job(id, id == 11 ? 1000 : 1001, {{id, "n4", {static_cast<int>(id) - 11}}}));
  });
  auto looks = job(10, "n1", {0, 1});
  looks.extensions = {{21, "n2", {0, 1}}, {22, "n3", {0, 1}}};
  looks.plan = {4, 1, {{8, 1, {{2, {{"n1", 0}}}, {1, {{"n2", 0}}}, {1, {{"n3", 0}}}}}}};
  looks.held = true;
  const auto link = daemon.connect(1000);
  link->says(wire::Register{looks, "n1", 1});
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  daemon.planner->hold(10, true);
  const auto tell = [&](int number) {
    Profile profile;
    profile.plan = *looks.plan;
    profile.shape = looks.model;
    profile.steps = 8;
    profile.step = 8 * number;
    for (const int replica : {0, 1, 2}) {
      ReplicaProfile one;
      one.replica = replica, one.fwd = replica == 0 ? 20 : 10, one.bwd = 2 * one.fwd, one.sync = 1, one.spread = 0.01;
      profile.replicas.push_back(one);
    }
    auto told = looks;
    told.profile = profile;
    link->on_frame(wire::with_links(wire::to_frame(wire::Status{told}), {number, of_n3(2)}));
  };
  tell(1);
  CHECK(daemon.planner->view()->slow_links.empty());
  tell(1);
  CHECK(daemon.planner->view()->slow_links.empty());
  tell(2);
  CHECK(daemon.planner->view()->slow_links.empty());
  tell(3);
  REQUIRE(daemon.until([&] { return daemon.planner->view()->slow_links.contains("n3"); }));
  CHECK(daemon.planner->view()->slow_links.size() == 1);
  CHECK(daemon.planner->view()->slow.empty());
  const auto kept = nodes_of_growth(daemon, 11, 1000, "n4");
  CHECK_FALSE(kept.empty());
  CHECK_FALSE(kept.contains("n3"));
  CHECK(nodes_of_growth(daemon, 12, 1001, "n4").contains("n3"));
  REQUIRE(daemon.until([&] { return daemon.planner->view()->job(12) != nullptr; }));
  const auto view = daemon.planner->view();
  CHECK(view->job(11)->behind_slow_links == Names{"n3"});
  CHECK(view->job(12)->behind_slow_links.empty());
}
