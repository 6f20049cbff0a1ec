// Abstract Unix sockets that carry whole packets, each with at most one descriptor. They connect
// processes of one user on one node. Each side asks the kernel for the other's user.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "planner/wire/descriptor.hpp"

namespace espalier::wire {

// Does not block. Throws Error, also when the name is taken or too long.
Descriptor listen_packets(const std::string& name);

// Each send and receive on the result waits at most `limit`. Throws Error when no process of this
// user listens there.
Descriptor connect_packets(const std::string& name, std::chrono::milliseconds limit);

// The abstract names that begin with `prefix` and that some process of this network namespace listens
// at, each with its owner, as the kernel tells. nullopt for an owner that the kernel does not tell.
// Nobody is connected to: a listener of another user could keep this process waiting.
std::map<std::string, std::optional<uid_t>> packet_listeners(const std::string& prefix);

// Whether the other end of a connection belongs to this process's user.
bool same_user(int connection);

// False when the packet was not sent; errno tells why.
bool send_packet(int connection, const void* packet, std::size_t bytes, int fd = -1);

// Returns the packet's size, or 0 at the end of the stream. -1: no packet came, or it is larger
// than `most`; errno tells why. `fd` gets the packet's descriptor, close-on-exec.
std::ptrdiff_t receive_packet(int connection, void* packet, std::size_t most, Descriptor& fd);

}  // namespace espalier::wire
