// Where other nodes reach this one.
#pragma once

#include <string>

namespace espalier::launcher {

// The address at which other nodes reach this one: that of its IPv4 interface in `network` (CIDR), else `node`.
std::string own_address(const std::string& network, const std::string& node);

// A TCP port of this node at which nothing listens now, of those below the ephemeral range, where no outgoing
// connection takes it meanwhile. Throws Error when none is free.
int unused_port();

}  // namespace espalier::launcher
