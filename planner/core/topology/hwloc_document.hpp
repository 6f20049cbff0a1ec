// Checks an hwloc XML document before hwloc reads it. hwloc's importer trusts its input. It crashes
// on an object without a set that hwloc itself always writes.
#pragma once

#include <string>

namespace espalier {

// Throws Error when `xml`
// - is larger than 2 MiB,
// - does not start as hwloc's exports do,
// - has a document type of its own (such a type can declare entities, which make XML grow without
//   end or name files),
// - has an object without the CPU and node sets that its type needs.
void check_hwloc_document(const std::string& xml);

}  // namespace espalier
