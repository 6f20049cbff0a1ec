// Abstract Unix sockets that carry whole packets, each with one descriptor or none. Between processes of one user on
// one node; both sides check with the kernel.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "planner/wire/descriptor.hpp"

namespace espalier::wire {

// Does not block. Throws Error, also when the name is taken or too long.
Descriptor listen_packets(const std::string& name);

// Waits on it end after `limit`. Throws Error when nobody of this user listens there.
Descriptor connect_packets(const std::string& name, std::chrono::milliseconds limit);

// Whether the other end of a connection belongs to this user.
bool same_user(int connection);

// False when the packet did not leave: errno tells why.
bool send_packet(int connection, const void* packet, std::size_t bytes, int fd = -1);

// The packet's size; 0 at the end of the stream; -1 when none came (errno tells why) or it is larger than `most`.
// `fd` gets the descriptor that came with it, close-on-exec.
std::ptrdiff_t receive_packet(int connection, void* packet, std::size_t most, Descriptor& fd);

}  // namespace espalier::wire
