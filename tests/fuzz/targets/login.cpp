// The texts in the credentials of a login. The first byte: whether the server or the client reads.
#include <string>

#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

using namespace wire;

void login(std::string_view input) {
  if (input.empty()) return;
  const bool server = (input.front() & 1) != 0;
  const std::string text(input.substr(1));
  LoginTerms own;
  own.service = Service::keeper;
  own.job = 17;
  own.server = "10.77.0.2:20272";
  own.server_uid = own.client_uid = 1000;
  own.server_nonce = std::string(32, 'a');
  own.client_nonce = std::string(32, 'b');
  const std::string token(32, 'c'), key(64, 'd');
  const Credential credential{text, 1000, 1000, 1000, true};
  try {
    if (!server) {
      check_server(credential, own);
      channel_keys(client_text(own, token, key), text);
      return;
    }
    const Door door{{Service::worker, Service::keeper, Service::ranks}, 17, token, 1000};
    const LoginTerms terms = check_client(credential, door, own);
    // Whoever is let in has named this server and its nonce, and knows the token.
    require(text.find(own.server_nonce) != std::string::npos && text.find(token) != std::string::npos);
    require(terms.job == 17 && terms.server == own.server && terms.client_uid == 1000);
    channel_keys(text, server_text(terms, key));
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
