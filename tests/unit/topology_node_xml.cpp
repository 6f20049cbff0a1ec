// The inside of a node from hwloc's XML, of real machines and made documents.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "planner/core/error.hpp"
#include "planner/core/topology/node_xml.hpp"
#include "tests/unit/topology_xml.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

std::string refusal(const std::string& xml) {
  try {
    read_node_xml(xml);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string without(std::string text, const std::string& from, const std::string& to) {
  const auto begin = text.find(from), end = text.find(to, begin);
  REQUIRE(end != std::string::npos);
  return text.erase(begin, end + to.size() - begin);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

constexpr float kPcie4 = 31.5e6F;

}  // namespace

TEST_SUITE("topology") {
  TEST_CASE("a DGX-2's 16 GPUs see each other through the NVSwitches with six links") {
    const std::string xml = shared_xml("nvidiaDGX2.xml");
    if (xml.empty()) return;
    const NodeHardware node = read_node_xml(xml);
    REQUIRE(node.inside.gpus == 16);
    CHECK_FALSE(node.hidden_nvlink);
    for (int a = 0; a < 16; ++a)
      for (int b = 0; b < 16; ++b)
        if (a != b) CHECK(node.inside.between(a, b) == 150e6F);  // 6 x 25 GB/s
    CHECK(node.gpus.front() == NodeGpu{"0000:34:00.0", 0});
    CHECK(node.gpus[8] == NodeGpu{"0000:b7:00.0", 1});
    CHECK(node.gpus.back() == NodeGpu{"0000:e7:00.0", 1});
    CHECK(std::is_sorted(node.gpus.begin(), node.gpus.end(),
                         [](const NodeGpu& a, const NodeGpu& b) { return a.pci < b.pci; }));
  }

  TEST_CASE("a DGX-2 reported without NVML shows PCIe only, and that NVLink is hidden") {
    const std::string xml = shared_xml("nvidiaDGX2.xml");
    if (xml.empty()) return;
    const NodeHardware node = read_node_xml(without(xml, "<distances2hetero", "</distances2hetero>"));
    CHECK(node.hidden_nvlink);
    CHECK(node.inside.gpus == 16);
    CHECK(node.inside.between(0, 1) == doctest::Approx(15.753846e6));          // below one switch
    CHECK(node.inside.between(0, 4) == doctest::Approx(15.753846e6 * 5 / 6));  // another root complex
    CHECK(node.inside.between(0, 8) == doctest::Approx(15.753846e6 / 2));      // the other NUMA node
  }

  TEST_CASE("a POWER8's pairs see each other by NVLink, the others by the GPUs' links to the CPUs") {
    const std::string xml = shared_xml("power8gpudistances.xml");
    if (xml.empty()) return;
    const NodeHardware node = read_node_xml(xml);
    REQUIRE(node.inside.gpus == 4);
    CHECK(node.inside.between(0, 1) == 40e6F);
    CHECK(node.inside.between(3, 2) == 40e6F);
    CHECK(node.inside.between(0, 2) == 20e6F);
    CHECK(node.inside.between(3, 1) == 20e6F);
    CHECK(node.gpus[0] == NodeGpu{"0002:01:00.0", 0});
    CHECK(node.gpus[3] == NodeGpu{"000b:01:00.0", 1});
  }

  TEST_CASE("without NVLink a common switch beats the root complex, and that the other NUMA node") {
    const NodeHardware node = read_node_xml(made_xml(2));
    REQUIRE(node.inside.gpus == 8);
    CHECK_FALSE(node.hidden_nvlink);
    CHECK(node.inside.between(0, 1) == kPcie4);
    CHECK(node.inside.between(0, 2) == doctest::Approx(kPcie4 * 5 / 6));
    CHECK(node.inside.between(0, 4) == doctest::Approx(kPcie4 / 2));
    for (int a = 0; a < 8; ++a)
      for (int b = 0; b < a; ++b) CHECK(node.inside.between(a, b) == node.inside.between(b, a));
    CHECK(node.gpus[2] == NodeGpu{"0000:31:00.0", 0});
    CHECK(node.gpus[4] == NodeGpu{"0000:61:00.0", 1});
  }

  TEST_CASE("a GPU whose idle link is clocked down counts as PCIe 3.0 x16 at least") {
    CHECK(read_node_xml(made_xml(2, "4.0")).inside.between(0, 1) == doctest::Approx(15.753846e6));
    CHECK(read_node_xml(made_xml(2, "0.0")).inside.between(0, 1) == doctest::Approx(15.753846e6));
  }

  TEST_CASE("what is no hwloc XML of a node with GPUs is refused with a reason") {
    const std::string good = made_xml(1);
    const std::string again = "; export it with espalier-report or lstopo";
    CHECK(refusal("") == "hwloc XML: not what hwloc 2 writes" + again);
    CHECK(refusal("<topology version=\"2.0\"/>") == "hwloc XML: not what hwloc 2 writes" + again);
    CHECK(refusal(replaced(good, "UTF-8", "UTF-7")) == "hwloc XML: not what hwloc 2 writes" + again);
    CHECK(refusal(good + std::string(1, '\0')) == "hwloc XML: not what hwloc 2 writes" + again);
    CHECK(refusal(good.substr(0, good.rfind("</topology>"))) ==
          "hwloc XML: cannot be parsed; is it cut short, or of a newer hwloc?");
    CHECK(refusal(made_xml(0)) == "hwloc XML: shows no GPU; does hwloc see PCI devices on that node?");
    CHECK(refusal(made_xml(100)) == "hwloc XML: shows 400 GPUs, more than the 256 allowed");
    CHECK(refusal(good + std::string(2u << 20, ' ')).find("bytes are more than the 2097152 allowed") !=
          std::string::npos);
    CHECK(refusal(replaced(good, " SYSTEM \"hwloc2.dtd\"", " [<!ENTITY a \"b\">]")) ==
          "hwloc XML: has a document type of its own" + again);
    CHECK(refusal(replaced(good, " SYSTEM \"hwloc2.dtd\"", " SYSTEM \"/etc/passwd\"")) ==
          "hwloc XML: has a document type of its own" + again);
    CHECK(refusal(replaced(good, " complete_nodeset=\"0x00000001\"", "")) ==
          "hwloc XML: has a Package without complete_nodeset" + again);
    CHECK(refusal(replaced(good, "type=\"PU\"", "type='PU'")) ==
          "hwloc XML: has an attribute without a value in double quotes" + again);
    CHECK(refusal(replaced(good, "type=\"PU\"", "type=\"PU\" type=\"Misc\"")) ==
          "hwloc XML: gives an attribute twice" + again);
  }

  // hwloc itself crashes on a few in a hundred documents damaged like these.
  TEST_CASE("a damaged document is read or refused, and never more") {
    ::setenv("HWLOC_HIDE_ERRORS", "2", 1);
    std::mt19937 random(5);
    const std::string base = made_xml(2);
    int accepted = 0;
    for (int round = 0; round < 400; ++round) {
      std::string xml = base;
      for (auto edits = 1 + random() % 3; edits > 0; --edits) {
        const std::size_t at = random() % xml.size();
        const std::size_t quote = xml.find('"', at);
        const std::size_t end = xml.find('"', quote + 1);
        const std::size_t space = xml.find(' ', at);
        switch (random() % 4) {
          case 0:
            if (end != std::string::npos) xml.replace(quote + 1, end - quote - 1, random() % 2 ? "0" : "99999999999");
            break;
          case 1:  // drops an attribute with its quotes
            if (const auto close = xml.find('"', xml.find('"', space) + 1); space < close && close != std::string::npos)
              xml.erase(space, close + 1 - space);
            break;
          case 2:
            if (const auto digit = xml.find_first_of("0123456789", at); digit != std::string::npos)
              xml[digit] = "0123456789abcdef"[random() % 16];
            break;
          default:  // moves a line
            if (const auto line = xml.find('\n', at), next = xml.find('\n', line + 1); next != std::string::npos) {
              const std::string moved = xml.substr(line, next - line);
              xml.erase(line, next - line);
              xml.insert(xml.find('\n', random() % (xml.size() / 2)), moved);
            }
        }
      }
      accepted += refusal(xml) == "accepted";
    }
    CHECK(accepted > 20);
    CHECK(accepted < 380);
  }
}
