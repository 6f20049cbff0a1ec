#include "planner/wire/handshake.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"

namespace espalier::wire {
namespace {

std::string purpose(const char* side, Service service, const std::string& client_nonce,
                    const std::string& server_nonce) {
  return std::string("espalier ") + side + (service == Service::planner ? " planner " : " launcher ") + client_nonce +
         " " + server_nonce;
}

std::string field(const Frame& frame, const char* type, const char* name) {
  if (frame.type == "refused" && frame.body.value("reason", Json()).is_string())
    throw Error("handshake: refused: " + frame.body["reason"].get<std::string>());
  if (frame.type != type) throw Error("handshake: got \"" + frame.type + "\" instead of \"" + type + "\"");
  std::string value;
  Fields(frame.body, type).get(name, value);
  if (value.size() > 4096) throw Error(std::string("handshake: ") + name + " is too long");
  return value;
}

Credential open_for(const std::string& credential, const std::string& expected) {
  Credential opened = munge_open(credential);
  if (opened.payload != expected) throw Error("handshake: the credential was made for something else");
  return opened;
}

}  // namespace

std::string fresh_nonce() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error("handshake: the kernel gives no random bytes");
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Frame client_challenge(const std::string& nonce) { return {"challenge", {{"nonce", nonce}}}; }

Frame server_identity(Service service, const Frame& challenge, const std::string& server_nonce,
                      std::string& client_nonce) {
  client_nonce = field(challenge, "challenge", "nonce");
  return {
      "identity",
      {{"nonce", server_nonce}, {"credential", munge_seal(purpose("server", service, client_nonce, server_nonce))}}};
}

Frame client_identity(Service service, const Frame& identity, const std::string& nonce,
                      const std::vector<uid_t>& server_uids) {
  const std::string server_nonce = field(identity, "identity", "nonce");
  const Credential server =
      open_for(field(identity, "identity", "credential"), purpose("server", service, nonce, server_nonce));
  if (std::find(server_uids.begin(), server_uids.end(), server.uid) == server_uids.end())
    throw Error("handshake: the server runs as uid " + std::to_string(server.uid) + ", which is not trusted here");
  return {"identity", {{"nonce", ""}, {"credential", munge_seal(purpose("client", service, nonce, server_nonce))}}};
}

Credential check_client(Service service, const Frame& identity, const std::string& client_nonce,
                        const std::string& server_nonce) {
  return open_for(field(identity, "identity", "credential"), purpose("client", service, client_nonce, server_nonce));
}

Frame welcome() { return {"welcome", Json::object()}; }

}  // namespace espalier::wire
