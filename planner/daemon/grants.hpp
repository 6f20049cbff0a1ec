// Grants of extensions (planner/wire/grant.h): with them the launcher's extensions, and no other job of a user, come
// into the partition for extensions.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "planner/core/decision.hpp"

namespace espalier {

// What a user's anchor is granted, as a text for the launcher; empty: extensions need no grant here, or the request
// fits into none. Null: the same.
using MakeGrant = std::function<std::string(uid_t user, JobId anchor, const ExtensionRequest& request)>;

// With the key of the file at `path`. Null when there is no file, or it cannot be used: that is logged. `partition`:
// the configured one. A key for another partition is not used.
MakeGrant make_grants(const std::string& path, const std::string& partition);

}  // namespace espalier
