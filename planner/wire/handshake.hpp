// The login of a TCP stream: mutual authentication by MUNGE, which leaves both sides with keys for the
// tags of all later frames (frame_tags.hpp). Three frames without tags:
//
//   server -> challenge {nonce: S, uid: U}    S: 32 hex digits; U: the server's user
//   client -> login     {credential: C1}      only U may open C1
//   server -> welcome   {credential: C2}      only the client's user may open C2
//
// In place of its second or third line the server may send `refused` {reason} and close. C1 and C2 are
// MUNGE credentials, encrypted by AES-256. The text of C1, whose lines all end in a newline:
//
//   espalier 2 client
//   service=worker             worker, keeper, ranks or planner
//   job=17                     the launcher's anchor; 0 for espalierd
//   server=10.77.0.2:20272     the address and port that the client connected to, numeric
//   server_uid=1000            U
//   client_uid=1000
//   server_nonce=S
//   client_nonce=C             32 hex digits
//   token=0123...              of the job, hex; empty for espalierd
//   key=4567...                64 hex digits, random: K1
//
// The text of C2 begins with "espalier 2 server", has no line `token`, and its key is K2. Its other lines
// are those of C1. From these texts both sides derive, with HMAC-SHA256(key, message):
//
//   session          = HMAC(K1 || K2, text of C1 || text of C2)     K1 || K2: 64 bytes
//   client to server = HMAC(session, "client to server")
//   server to client = HMAC(session, "server to client")
//
// What this prevents: munged opens a credential for its reader only, so nobody else learns K1 or K2. An
// attacker who passes a login on between a client and a server can then neither read the keys nor make a
// frame. If he does so from another address or port, the server notices. The nonces make recorded
// credentials useless, the first line those of the other side, `service` and `job` those for others.
// There is no forward secrecy: whoever has munge.key and a recording can derive its keys later.
// On a local socket the kernel names the peer. There the server sends `welcome` {} at once, and no frame
// has a tag.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "planner/wire/frame.hpp"
#include "planner/wire/frame_tags.hpp"
#include "planner/wire/munge.hpp"
#include "planner/wire/service.hpp"

namespace espalier::wire {

std::string fresh_nonce();  // 128 random bits, hex

// What both texts of a login say.
struct LoginTerms {
  Service service = Service::planner;
  JobId job = 0;
  std::string server;
  uid_t server_uid = 0, client_uid = 0;
  std::string server_nonce, client_nonce;
};
// `key`: 64 hex digits.
std::string client_text(const LoginTerms& terms, const std::string& token, const std::string& key);
std::string server_text(const LoginTerms& terms, const std::string& key);

// What the client's credential says, checked. `own`: the server's own service, address, user and nonce; those
// of its fields that the client decides are not looked at. Throws Error, which names the field that is wrong.
LoginTerms check_client(const Credential& credential, const Door& door, const LoginTerms& own);
// Checks the server's credential against what the client has sent. Throws Error as check_client().
void check_server(const Credential& credential, const LoginTerms& sent);
// Throws Error when one of the texts has no key.
ChannelKeys channel_keys(const std::string& client_text, const std::string& server_text);

// One side of one login. The owner passes the peer's frames to answer() until there are keys. answer() may
// block, because it asks munged; any thread may call it, one at a time. Throws Error: the login has failed.
class Login {
 public:
  struct Answer {
    std::optional<Frame> reply;       // to be sent, without a tag
    std::optional<ChannelKeys> keys;  // the login is over; for all frames after the reply
    uid_t uid = static_cast<uid_t>(-1);
    gid_t gid = static_cast<gid_t>(-1);
    Service service = Service::planner;  // with keys: what the connection is for, and who the peer is
  };
  virtual ~Login() = default;
  virtual std::optional<Frame> opening() const { return std::nullopt; }  // to be sent first
  virtual Answer answer(const Frame& frame) = 0;
};

// `server`: the server's numeric address and port, as the side sees them.
std::unique_ptr<Login> server_login(std::shared_ptr<const Door> door, std::string server);
std::unique_ptr<Login> client_login(Caller caller, std::string server);

Frame welcome();  // of a local socket

}  // namespace espalier::wire
