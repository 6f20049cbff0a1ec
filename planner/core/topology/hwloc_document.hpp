// A look at an hwloc XML document before hwloc sees it: hwloc's importer trusts its input, and crashes where an object
// lacks a set that hwloc itself always writes.
#pragma once

#include <string>

namespace espalier {

// Throws Error when `xml` is larger than 2 MiB, does not start as hwloc's exports do, has a document type of its own
// (where entities would be declared: how XML grows without end, or names files), or has an object without the CPU and
// node sets that its type needs.
void check_hwloc_document(const std::string& xml);

}  // namespace espalier
