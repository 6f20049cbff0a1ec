// The site of the decisions, and how long the same object is used.
#include <doctest/doctest.h>

#include "tests/unit/daemon_cases.hpp"
#include "tests/unit/topology_xml.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("a site stays the same object until nodes, reports or overrides change") {
  spdlog::set_level(spdlog::level::off);
  SiteCache cache({});
  ClusterView view{{node("n1", 4), node("n2", 4)}, {}, {}};
  auto known = cache.site(view, {});
  const auto made_anew = [&](const HardwareOverrides& overrides) {
    const auto next = cache.site(view, overrides);
    const bool changed = next != known;
    known = next;
    return changed;
  };
  CHECK_FALSE(made_anew({}));
  view.nodes[0].gpu_owner[1] = 77;  // the GPUs' owners do not matter
  view.nodes[0].usable = false;
  view.nodes[1].free_cpus = 0;
  CHECK_FALSE(made_anew({}));
  view.nodes[1].gpu_type = "a100";
  CHECK(made_anew({}));
  CHECK(known->hardware.types.size() == 2);
  view.nodes[1].switches = {"spine", "leaf2"};
  CHECK(made_anew({}));
  CHECK(known->topology.distance(0, 1) == 2);
  view.nodes[1].gpu_owner.push_back(0);
  CHECK(made_anew({}));
  HardwareOverrides overrides;
  overrides.nic_gb_s = 50;
  CHECK(made_anew(overrides));
  CHECK_FALSE(made_anew(overrides));
  view.nodes.push_back(node("n3", 2));
  CHECK(made_anew(overrides));
  CHECK(known->topology.find("n3") == 2);
}

TEST_CASE("a node's report changes the site, the same report again does not") {
  spdlog::set_level(spdlog::level::off);
  SiteCache cache({});
  const ClusterView view{{node("n1", 4)}, {}, {}};
  const auto without = cache.site(view, {});
  cache.reported("n1", made_xml(1));
  const auto with = cache.site(view, {});
  CHECK(with != without);
  CHECK(with->topology.inside(with->topology.kind(0)) != nullptr);
  cache.reported("n1", made_xml(1));
  CHECK(cache.site(view, {}) == with);
  cache.reported("n1", "<?xml version=\"1.0\"?><topology/>");  // no GPUs: counts as not reported
  const auto broken = cache.site(view, {});
  CHECK(broken != with);
  CHECK(broken->topology.inside(broken->topology.kind(0)) == nullptr);
  SiteCache restarted({{"n1", made_xml(1)}});
  CHECK(restarted.site(view, {})->topology.inside(0) != nullptr);
}

TEST_CASE("a node's report reaches the store and the planner") {
  Daemon daemon;
  const auto link = daemon.connect(0);
  link->says(wire::Topology{"n1", made_xml(1)});
  CHECK_FALSE(link->closed);
  // What a node of a name that Slurm never tells reports is not stored.
  link->says(wire::Topology{"n9", made_xml(1)});
  REQUIRE(daemon.until([&] { return daemon.store.topology_documents().contains("n1"); }));
  CHECK(daemon.store.topology_documents().at("n1") == made_xml(1));
  link->says(wire::Topology{"n8", made_xml(1)});
  daemon.pass(250);
  CHECK(daemon.store.topology_documents().size() == 1);
}
