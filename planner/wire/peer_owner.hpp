// Who owns the other end of a TCP connection within one node, as the kernel knows it.
#pragma once

#include <sys/types.h>

#include <optional>

namespace espalier::wire {

// The owner of the socket at the other end of `connection`. nullopt: that end is not on this node, or not any more, or
// the kernel does not say. For connections of IPv4 and IPv6.
std::optional<uid_t> peer_owner(int connection);
// Whether `connection` is one of TCP. Those of Unix sockets are guarded by their path.
bool is_internet(int connection);

}  // namespace espalier::wire
