#include "launcher/conform/login.hpp"

#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/wire/endpoint.hpp"

namespace espalier::launcher::conform {
namespace {
constexpr const char* kKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
}  // namespace

Login::Login(const wire::Descriptor& socket, const wire::Door& door) : door_(door) {
  terms_.service = wire::Service::worker;
  terms_.job = door_.job;
  terms_.server = wire::to_string(wire::own_endpoint(socket.get()));
  terms_.server_uid = ::geteuid();
  terms_.server_nonce = wire::fresh_nonce();
}

wire::Frame Login::challenge(const Json& changes) const {
  wire::Frame frame{"challenge", {{"nonce", terms_.server_nonce}, {"uid", terms_.server_uid}}};
  frame.body.update(changes);
  return frame;
}

void Login::take(const wire::Frame& frame) {
  const auto credential = frame.body.find("credential");
  if (frame.type != "login" || credential == frame.body.end() || !credential->is_string())
    throw Error("login: got `" + frame.type + "` instead of `login`");
  const wire::Credential client = wire::munge_open(credential->get<std::string>());
  terms_ = wire::check_client(client, door_, terms_);
  client_ = client.payload;
}

std::string Login::credential() const { return wire::munge_seal(wire::server_text(terms_, kKey), terms_.client_uid); }

wire::ChannelKeys Login::keys() const { return wire::channel_keys(client_, wire::server_text(terms_, kKey)); }

std::string Login::credential(const std::function<void(wire::LoginTerms&)>& change, bool with_key) const {
  wire::LoginTerms terms = terms_;
  change(terms);
  return wire::munge_seal(wire::server_text(terms, with_key ? kKey : "none"), terms_.client_uid);
}

}  // namespace espalier::launcher::conform
