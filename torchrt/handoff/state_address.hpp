// The name of the socket at which a rank hands out its state (state_socket.hpp).
#pragma once

#include <string>

namespace espalier::torchrt {

// "espalier-g<generation>-r<rank>-" and 32 hexadecimal digits of HMAC-SHA256(token of the job, generation and rank).
// All users of a node see the names of its sockets. From those that are there nobody can tell the name that a rank of
// a later generation will have, and take it first. Throws Error when libcrypto fails.
std::string state_address(const std::string& token, int generation, int rank);

}  // namespace espalier::torchrt
