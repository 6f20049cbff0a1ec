// hwloc documents for the tests: real ones from ../shared and small made ones.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace espalier::test {

// Empty when ../shared is not there. Then it prints a message, and the test should return.
inline std::string shared_xml(const std::string& name) {
  std::ifstream file("../shared/data/hwloc/" + name);
  if (!file) MESSAGE("skipped: ../shared/data/hwloc/", name, " is not there");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two NUMA nodes. Each has one host bridge with two PCIe switches. Below each switch are NVIDIA
// GPUs without NVLink. `link`: GB/s of the GPUs' PCIe links.
inline std::string made_xml(int gpus_per_switch, const std::string& link = "31.5") {
  const auto sets = [](const std::string& mask) {
    return " cpuset=\"" + mask + "\" complete_cpuset=\"" + mask + "\" nodeset=\"" + mask + "\" complete_nodeset=\"" +
           mask + "\"";
  };
  std::string xml =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
      "version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"" +
      sets("0x00000003") + " allowed_cpuset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">\n";
  int id = 2;
  const auto next = [&] { return " gp_index=\"" + std::to_string(id++) + "\""; };
  for (int numa = 0; numa < 2; ++numa) {
    const std::string mine = sets(numa == 0 ? "0x00000001" : "0x00000002");
    const std::string index = " os_index=\"" + std::to_string(numa) + "\"";
    xml += "<object type=\"Package\"" + index + mine + next() + ">\n<object type=\"NUMANode\"" + index + mine + next() +
           " local_memory=\"1000000\"/>\n<object type=\"Core\"" + index + mine + next() + "><object type=\"PU\"" +
           index + mine + next() + "/></object>\n";
    const int root = 0x20 + numa * 0x40;
    char text[400];
    std::snprintf(text, sizeof text,
                  "<object type=\"Bridge\"%s bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%02x-%02x]\">\n",
                  next().c_str(), static_cast<unsigned>(root), static_cast<unsigned>(root + 0x30));
    xml += text;
    for (int port = 0; port < 2; ++port) {
      const auto bus = static_cast<unsigned>(root + 1 + port * 0x10);
      std::snprintf(text, sizeof text,
                    "<object type=\"Bridge\"%s bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[%02x-%02x]\" "
                    "pci_busid=\"0000:%02x:%02x.0\" pci_type=\"0604 [10b5:9781] [10b5:9781] b0 00\" "
                    "pci_link_speed=\"31.5\">\n",
                    next().c_str(), bus, bus + 0xe, static_cast<unsigned>(root), static_cast<unsigned>(port));
      xml += text;
      for (int gpu = 0; gpu < gpus_per_switch; ++gpu) {
        std::snprintf(
            text, sizeof text,
            "<object type=\"PCIDev\"%s pci_busid=\"0000:%02x:00.0\" pci_type=\"0302 [10de:20b5] [10de:1533] a1 "
            "00\" pci_link_speed=\"%s\"/>\n",
            next().c_str(), bus + static_cast<unsigned>(gpu), link.c_str());
        xml += text;
      }
      xml += "</object>\n";
    }
    xml += "</object>\n</object>\n";
  }
  return xml + "</object>\n</topology>\n";
}

}  // namespace espalier::test
