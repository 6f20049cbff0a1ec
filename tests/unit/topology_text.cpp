// Slurm's topology.conf and scontrol's output into switch paths.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/topology/topology_text.hpp"

using namespace espalier;
using Path = std::vector<std::string>;

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_topology(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a tree as topology.conf writes it") {
  const auto paths = parse_topology(
      "# the fabric\n"
      "SwitchName=leaf1 Nodes=n[1-2] LinkSpeed=4  # old\n"
      "switchname=leaf2 nodes=n3,m[07-08]\n"
      "SwitchName=spine Switches=leaf[1-2]\n"
      "SwitchName=core \\\n  Switches=spine\n");
  CHECK(paths.size() == 5);
  CHECK(paths.at("n2") == Path{"core", "spine", "leaf1"});
  CHECK(paths.at("m07") == Path{"core", "spine", "leaf2"});
}

TEST_CASE("a tree as scontrol prints it: upper switches name their nodes too") {
  const auto paths = parse_topology(
      "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
      "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
      "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\n");
  CHECK(paths.size() == 4);
  CHECK(paths.at("n3") == Path{"s2", "s1"});
}

TEST_CASE("blocks as topology.conf writes them, with the larger ones that BlockSizes makes") {
  const auto paths = parse_topology(
      "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n[5-6]\nBlockName=b4 Nodes=n[7-8]\n"
      "BlockName=b5 Nodes=n9\nBlockSizes=2,4,8\n");
  CHECK(paths.size() == 9);
  CHECK(paths.at("n1") == Path{"b1..b4 of 8", "b1..b2 of 4", "b1"});
  CHECK(paths.at("n4") == Path{"b1..b4 of 8", "b1..b2 of 4", "b2"});
  CHECK(paths.at("n6") == Path{"b1..b4 of 8", "b3..b4 of 4", "b3"});
  CHECK(paths.at("n9").back() == "b5");
  CHECK(paths.at("n9").front() != paths.at("n8").front());
}

TEST_CASE("blocks as scontrol prints them") {
  const auto paths = parse_topology(
      "BlockName=b0 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
      "BlockName=b1 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
      "BlockName=b2 BlockIndex=2 Nodes=n[5-6] BlockSize=2\n"
      "AggregatedBlock=b[0-2] BlockIndex=4 Nodes=n[1-6] BlockSize=8\n"
      "AggregatedBlock=b[0-1] BlockIndex=3 Nodes=n[1-4] BlockSize=4\n");
  CHECK(paths.at("n1") == Path{"b[0-2]", "b[0-1]", "b0"});
  CHECK(paths.at("n5") == Path{"b[0-2]", "b2"});
}

TEST_CASE("blocks alone are leaves without anything above") {
  const auto paths = parse_topology("BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n2\nBlockSizes=1\n");
  CHECK(paths.at("n1") == Path{"b1"});
  CHECK(paths.at("n2") == Path{"b2"});
}

TEST_CASE("a text that names nothing gives nothing; a size that is none is refused; a loop of switches is cut") {
  CHECK(parse_topology("").empty());
  CHECK(parse_topology("No topology information available\n").empty());
  CHECK(refusal("BlockName=b1 Nodes=n1\nBlockSizes=4,many\n") == "topology: BlockSizes=4,many: \"many\" is no size");
  CHECK(refusal("BlockName=b1 Nodes=n1\nBlockSizes=0\n") == "topology: BlockSizes=0: \"0\" is no size");
  CHECK(refusal("BlockName=b1 Nodes=n1\nBlockSizes=4x\n") == "topology: BlockSizes=4x: \"4x\" is no size");
  CHECK(refusal("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b\nAggregatedBlock=b\n") ==
        "accepted");
}

TEST_CASE("a topology file that cannot be read names the key") {
  CHECK_THROWS_WITH_AS(read_topology_file("/no/such.conf"),
                       "/no/such.conf: cannot be read; check planner.topology_file in espalier.toml", Error);
  char name[] = "/tmp/espalier-topology-XXXXXX";
  ::close(::mkstemp(name));
  CHECK_THROWS_WITH_AS(read_topology_file(name),
                       (std::string(name) + ": topology: names no switch and no block with nodes").c_str(), Error);
  std::ofstream(name) << "BlockName=b1 Nodes=n1\n";
  CHECK(read_topology_file(name).at("n1") == Path{"b1"});
  std::remove(name);
}
