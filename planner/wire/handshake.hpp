// Mutual authentication of a TCP stream by MUNGE. Each side seals the other's fresh nonce, so neither a recorded
// credential nor one made for another purpose helps an attacker.
//
//   client -> challenge {nonce: C}
//   server -> identity  {nonce: S, credential: seal("espalier server " + C)}
//   client -> identity  {nonce: "", credential: seal("espalier client " + S)}
//   server -> welcome
// On a local socket the kernel names the peer; the server sends welcome at once.
#pragma once

#include <string>
#include <vector>

#include "planner/wire/frame.hpp"
#include "planner/wire/munge.hpp"

namespace espalier::wire {

std::string fresh_nonce();  // 128 random bits, hex

Frame client_challenge(const std::string& nonce);
Frame server_identity(const Frame& challenge, const std::string& server_nonce);
// Checks the server and answers. Throws Error.
Frame client_identity(const Frame& identity, const std::string& nonce, const std::vector<uid_t>& server_uids);
// Who the client is. Throws Error.
Credential check_client(const Frame& identity, const std::string& server_nonce);
Frame welcome();

}  // namespace espalier::wire
