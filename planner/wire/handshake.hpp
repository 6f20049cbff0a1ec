// Mutual authentication of a TCP stream by MUNGE. Both sides seal the service and both fresh
// nonces. An attacker therefore cannot use a recorded credential, a credential made for another
// purpose, or one relayed from another stream.
//
//   client -> challenge {nonce: C}
//   server -> identity  {nonce: S, credential: seal("espalier server SERVICE C S")}
//   client -> identity  {nonce: "", credential: seal("espalier client SERVICE C S")}
//   server -> welcome
// On a local socket the kernel names the peer, and the server sends welcome at once.
#pragma once

#include <string>
#include <vector>

#include "planner/wire/frame.hpp"
#include "planner/wire/munge.hpp"
#include "planner/wire/service.hpp"

namespace espalier::wire {

std::string fresh_nonce();  // 128 random bits, hex

Frame client_challenge(const std::string& nonce);
// Sets `client_nonce` to the nonce in `challenge`. Throws Error.
Frame server_identity(Service service, const Frame& challenge, const std::string& server_nonce,
                      std::string& client_nonce);
// Checks the server's identity and returns the client's. Throws Error.
Frame client_identity(Service service, const Frame& identity, const std::string& nonce,
                      const std::vector<uid_t>& server_uids);
// Returns the client's identity. Throws Error.
Credential check_client(Service service, const Frame& identity, const std::string& client_nonce,
                        const std::string& server_nonce);
Frame welcome();

}  // namespace espalier::wire
