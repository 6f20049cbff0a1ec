#include "planner/wire/handshake.hpp"

#include <openssl/crypto.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "planner/core/error.hpp"
#include "planner/wire/host_uid.hpp"

namespace espalier::wire {
namespace {

constexpr std::size_t kNonceDigits = 32, kKeyDigits = 2 * kKeyBytes, kLongest = 256;
constexpr const char* kClient = "espalier 2 client\n";
constexpr const char* kServer = "espalier 2 server\n";

[[noreturn]] void wrong(const std::string& why) { throw Error("handshake: " + why); }

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string random_hex(std::size_t digits) {
  std::array<unsigned char, kKeyBytes> bytes{};
  const std::size_t size = digits / 2;
  if (::getrandom(bytes.data(), size, 0) != static_cast<ssize_t>(size)) wrong("the kernel gives no random bytes");
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

// The lines of a credential's text, each "name=value\n", in their order. Throws Error on any other line.
class Lines {
 public:
  Lines(std::string_view text, std::string_view first) : rest_(text) {
    if (!rest_.starts_with(first)) wrong("the credential was made for something else");
    rest_.remove_prefix(first.size());
  }
  std::string take(const std::string& name) {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos || !rest_.starts_with(name + "="))
      wrong("the credential has no line \"" + name + "\" in its place");
    std::string value(rest_.substr(name.size() + 1, end - name.size() - 1));
    rest_.remove_prefix(end + 1);
    if (value.size() > kLongest ||
        value.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz.:-") != std::string::npos)
      wrong("the credential's " + name + " is not of the form it has");
    return value;
  }
  // A line that both sides know.
  void expect(const std::string& name, const std::string& value, const char* remedy = "") {
    const std::string given = take(name);
    if (given != value) wrong("the credential is for " + name + " " + given + ", not " + value + remedy);
  }
  std::string hex(const std::string& name, std::size_t digits) {
    std::string value = take(name);
    if (!is_hex(value, digits)) wrong("the credential's " + name + " is not " + std::to_string(digits) + " hex digits");
    return value;
  }
  void end() const {
    if (!rest_.empty()) wrong("the credential has more lines than it should");
  }

 private:
  std::string_view rest_;
};

std::string terms_text(const LoginTerms& terms) {
  return std::string("service=") + name_of(terms.service) + "\njob=" + std::to_string(terms.job) +
         "\nserver=" + terms.server + "\nserver_uid=" + std::to_string(terms.server_uid) +
         "\nclient_uid=" + std::to_string(terms.client_uid) + "\nserver_nonce=" + terms.server_nonce +
         "\nclient_nonce=" + terms.client_nonce + "\n";
}

// What MUNGE itself says of a credential.
void check_seal(const Credential& credential, uid_t reader) {
  if (!credential.encrypted) wrong("the credential is not encrypted");
  if (credential.reader != reader) wrong("the credential is not for uid " + std::to_string(reader) + " alone");
}

Service service_of(const std::string& name, const Door& door) {
  for (const Service service : door.services)
    if (name == name_of(service)) return service;
  wrong("service " + name + " is not here; check the port");
}

bool same_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string key_of(const std::string& text) {
  const auto at = text.rfind("\nkey=");
  const std::string digits = at == std::string::npos ? "" : text.substr(at + 5, kKeyDigits);
  if (!is_hex(digits, kKeyDigits)) wrong("a credential has no key");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

// A text of the frame's. Throws Error when the frame is a refusal, or another one than `type`.
std::string field(const Frame& frame, const char* type, const char* name) {
  if (frame.type == "refused" && frame.body.value("reason", Json()).is_string())
    wrong("refused: " + frame.body["reason"].get<std::string>());
  if (frame.type != type) wrong("got \"" + frame.type + "\" instead of \"" + type + "\"");
  const auto value = frame.body.find(name);
  if (value == frame.body.end() || !value->is_string()) wrong(std::string(type) + "." + name + ": missing");
  std::string text = value->get<std::string>();
  if (text.size() > 4096) wrong(std::string(name) + " is too long");
  return text;
}

class ServerLogin final : public Login {
 public:
  ServerLogin(std::shared_ptr<const Door> door, std::string server) : door_(std::move(door)) {
    own_.server = std::move(server);
    own_.server_uid = ::geteuid();
    own_.server_nonce = fresh_nonce();
  }
  std::optional<Frame> opening() const override {
    return Frame{"challenge", {{"nonce", own_.server_nonce}, {"uid", own_.server_uid}}};
  }
  Answer answer(const Frame& frame) override {
    const Credential client = munge_open(field(frame, "login", "credential"));
    const LoginTerms terms = check_client(client, *door_, own_);
    const std::string text = server_text(terms, random_hex(kKeyDigits));
    Answer answer;
    answer.reply = Frame{"welcome", {{"credential", munge_seal(text, client.uid)}}};
    answer.keys = channel_keys(client.payload, text);
    answer.uid = client.uid;
    answer.gid = client.gid;
    answer.service = terms.service;
    return answer;
  }

 private:
  std::shared_ptr<const Door> door_;
  LoginTerms own_;
};

class ClientLogin final : public Login {
 public:
  ClientLogin(Caller caller, std::string server) : caller_(std::move(caller)) {
    terms_.service = caller_.service;
    terms_.job = caller_.job;
    terms_.server = std::move(server);
    terms_.client_nonce = fresh_nonce();
  }
  Answer answer(const Frame& frame) override {
    Answer answer;
    if (text_.empty()) {
      take_challenge(frame);
      terms_.client_uid = host_uid();  // as MUNGE sees it
      text_ = client_text(terms_, caller_.token, random_hex(kKeyDigits));
      answer.reply = Frame{"login", {{"credential", munge_seal(text_, terms_.server_uid)}}};
      return answer;
    }
    const Credential server = munge_open(field(frame, "welcome", "credential"));
    check_server(server, terms_);
    answer.keys = channel_keys(text_, server.payload);
    answer.uid = server.uid;
    answer.gid = server.gid;
    answer.service = terms_.service;
    return answer;
  }

 private:
  // The server's word for its user is believed only in so far as nobody else can open the credential.
  void take_challenge(const Frame& frame) {
    terms_.server_nonce = field(frame, "challenge", "nonce");
    if (!is_hex(terms_.server_nonce, kNonceDigits))
      wrong("the nonce of \"challenge\" is not " + std::to_string(kNonceDigits) + " hex digits");
    const auto uid = frame.body.find("uid");
    if (uid == frame.body.end() || !uid->is_number_unsigned() || uid->get<std::uint64_t>() >= static_cast<uid_t>(-1))
      wrong("challenge.uid: missing, or no user");
    terms_.server_uid = uid->get<uid_t>();
    const auto& trusted = caller_.server_uids;
    if (std::find(trusted.begin(), trusted.end(), terms_.server_uid) == trusted.end())
      wrong("the server runs as uid " + std::to_string(terms_.server_uid) + ", which is not trusted here");
  }

  Caller caller_;
  LoginTerms terms_;
  std::string text_;  // of the client's credential; empty: not made yet
};

}  // namespace

const char* name_of(Service service) {
  switch (service) {
    case Service::planner:
      return "planner";
    case Service::worker:
      return "worker";
    case Service::keeper:
      return "keeper";
    case Service::ranks:
      return "ranks";
  }
  return "";
}

std::string fresh_nonce() { return random_hex(kNonceDigits); }

std::string client_text(const LoginTerms& terms, const std::string& token, const std::string& key) {
  return kClient + terms_text(terms) + "token=" + token + "\nkey=" + key + "\n";
}

std::string server_text(const LoginTerms& terms, const std::string& key) {
  return kServer + terms_text(terms) + "key=" + key + "\n";
}

LoginTerms check_client(const Credential& credential, const Door& door, const LoginTerms& own) {
  if (door.user && credential.uid != *door.user) wrong("this job belongs to another user");
  check_seal(credential, own.server_uid);
  LoginTerms terms = own;
  Lines lines(credential.payload, kClient);
  terms.service = service_of(lines.take("service"), door);
  terms.job = door.job;
  terms.client_uid = credential.uid;
  lines.expect("job", std::to_string(door.job));
  lines.expect("server", own.server, ": somebody passes the connection on, or the address is translated on the way");
  lines.expect("server_uid", std::to_string(own.server_uid));
  lines.expect("client_uid", std::to_string(credential.uid));
  lines.expect("server_nonce", own.server_nonce);
  terms.client_nonce = lines.hex("client_nonce", kNonceDigits);
  if (!same_secret(lines.take("token"), door.token)) wrong("the token is not this job's");
  lines.hex("key", kKeyDigits);
  lines.end();
  return terms;
}

void check_server(const Credential& credential, const LoginTerms& sent) {
  if (credential.uid != sent.server_uid)
    wrong("the server runs as uid " + std::to_string(credential.uid) + ", not as uid " +
          std::to_string(sent.server_uid));
  check_seal(credential, sent.client_uid);
  Lines lines(credential.payload, kServer);
  lines.expect("service", name_of(sent.service));
  lines.expect("job", std::to_string(sent.job));
  lines.expect("server", sent.server);
  lines.expect("server_uid", std::to_string(sent.server_uid));
  lines.expect("client_uid", std::to_string(sent.client_uid));
  lines.expect("server_nonce", sent.server_nonce);
  lines.expect("client_nonce", sent.client_nonce);
  lines.hex("key", kKeyDigits);
  lines.end();
}

ChannelKeys channel_keys(const std::string& client_text, const std::string& server_text) {
  const Key session = hmac(key_of(client_text) + key_of(server_text), client_text + server_text);
  const std::string_view key(reinterpret_cast<const char*>(session.data()), session.size());
  return {hmac(key, "client to server"), hmac(key, "server to client")};
}

std::unique_ptr<Login> server_login(std::shared_ptr<const Door> door, std::string server) {
  return std::make_unique<ServerLogin>(std::move(door), std::move(server));
}

std::unique_ptr<Login> client_login(Caller caller, std::string server) {
  return std::make_unique<ClientLogin>(std::move(caller), std::move(server));
}

Frame welcome() { return {"welcome", Json::object()}; }

}  // namespace espalier::wire
