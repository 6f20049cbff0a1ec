// Mutual authentication of a TCP stream by MUNGE. Both sides seal the service and both fresh nonces, so neither a
// recorded credential, nor one made for another purpose, nor one relayed from another stream helps an attacker.
//
//   client -> challenge {nonce: C}
//   server -> identity  {nonce: S, credential: seal("espalier server SERVICE C S")}
//   client -> identity  {nonce: "", credential: seal("espalier client SERVICE C S")}
//   server -> welcome
// On a local socket the kernel names the peer; the server sends welcome at once.
#pragma once

#include <string>
#include <vector>

#include "planner/wire/frame.hpp"
#include "planner/wire/munge.hpp"
#include "planner/wire/service.hpp"

namespace espalier::wire {

std::string fresh_nonce();  // 128 random bits, hex

Frame client_challenge(const std::string& nonce);
// `client_nonce` is set to the client's. Throws Error.
Frame server_identity(Service service, const Frame& challenge, const std::string& server_nonce,
                      std::string& client_nonce);
// Checks the server and answers. Throws Error.
Frame client_identity(Service service, const Frame& identity, const std::string& nonce,
                      const std::vector<uid_t>& server_uids);
// Who the client is. Throws Error.
Credential check_client(Service service, const Frame& identity, const std::string& client_nonce,
                        const std::string& server_nonce);
Frame welcome();

}  // namespace espalier::wire
