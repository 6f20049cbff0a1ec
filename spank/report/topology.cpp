#include "spank/report/topology.hpp"

#include <hwloc.h>

#include <memory>

#include "planner/core/error.hpp"

namespace espalier::report {

namespace {

void require(int status, const char* what) {
  if (status != 0) throw Error(std::string("hwloc: ") + what + " failed; is /sys readable?");
}

}  // namespace

std::string node_topology() {
  hwloc_topology_t raw = nullptr;
  require(hwloc_topology_init(&raw), "hwloc_topology_init");
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology(raw, hwloc_topology_destroy);
  // Loads the whole machine, even if a cgroup allows only a part of it. Keeps bridges and the
  // important devices.
  require(hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED), "hwloc_topology_set_flags");
  require(hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT),
          "hwloc_topology_set_io_types_filter");
  require(hwloc_topology_load(raw), "hwloc_topology_load");
  char* xml = nullptr;
  int length = 0;
  require(hwloc_topology_export_xmlbuffer(raw, &xml, &length, 0), "hwloc_topology_export_xmlbuffer");
  std::string text(xml);
  hwloc_free_xmlbuffer(raw, xml);
  return text;
}

}  // namespace espalier::report
