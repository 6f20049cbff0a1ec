// What both sides of a login look at in each other's credential: each field of it wrong, one by one.
#include <doctest/doctest.h>
#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"

using namespace espalier;
using namespace espalier::wire;

namespace {

constexpr uid_t kServerUser = 64030, kClientUser = 1000;
const std::string kNonce1(32, '1'), kNonce2(32, '2'), kKey1(64, 'a'), kKey2(64, 'b'), kToken = "0123456789abcdef";

Door door() { return {{Service::worker, Service::keeper}, 17, kToken, std::nullopt}; }
LoginTerms own() { return {Service::planner, 0, "10.77.0.2:20272", kServerUser, 0, kNonce1, ""}; }
LoginTerms terms() { return {Service::worker, 17, "10.77.0.2:20272", kServerUser, kClientUser, kNonce1, kNonce2}; }

Credential from_client(const std::string& text) { return {text, kClientUser, 100, kServerUser, true}; }
Credential from_server(const std::string& text) { return {text, kServerUser, 100, kClientUser, true}; }
std::string good_client() { return client_text(terms(), kToken, kKey1); }
std::string good_server() { return server_text(terms(), kKey2); }

// `text` with one line in place of another.
std::string with(std::string text, const std::string& line, const std::string& instead) {
  const auto at = text.find(line);
  REQUIRE(at != std::string::npos);
  return text.replace(at, line.size(), instead);
}

std::string why_not(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
std::string client_refused(const Credential& credential, const Door& at = door()) {
  return why_not([&] { check_client(credential, at, own()); });
}
std::string server_refused(const Credential& credential) {
  return why_not([&] { check_server(credential, terms()); });
}

}  // namespace

TEST_CASE("the texts of a login are those that handshake.hpp writes down") {
  CHECK(good_client() ==
        "espalier 2 client\nservice=worker\njob=17\nserver=10.77.0.2:20272\nserver_uid=64030\nclient_uid=1000\n"
        "server_nonce=" +
            kNonce1 + "\nclient_nonce=" + kNonce2 + "\ntoken=" + kToken + "\nkey=" + kKey1 + "\n");
  CHECK(good_server() ==
        "espalier 2 server\nservice=worker\njob=17\nserver=10.77.0.2:20272\nserver_uid=64030\nclient_uid=1000\n"
        "server_nonce=" +
            kNonce1 + "\nclient_nonce=" + kNonce2 + "\nkey=" + kKey2 + "\n");
}

TEST_CASE("good credentials are taken, and say who the client is and what for") {
  const LoginTerms said = check_client(from_client(good_client()), door(), own());
  CHECK(said.service == Service::worker);
  CHECK(said.client_uid == kClientUser);
  CHECK(said.client_nonce == kNonce2);
  CHECK(server_text(said, kKey2) == good_server());
  CHECK(server_refused(from_server(good_server())).empty());
}

TEST_CASE("a client's credential with one thing wrong is refused, and the message names it") {
  const std::string good = good_client();
  Credential credential = from_client(good);
  SUBCASE("not encrypted") {
    credential.encrypted = false;
    CHECK(client_refused(credential) == "handshake: the credential is not encrypted");
  }
  SUBCASE("for everybody") {
    credential.reader.reset();
    CHECK(client_refused(credential) == "handshake: the credential is not for uid 64030 alone");
  }
  SUBCASE("for another reader") {
    credential.reader = 1001;
    CHECK(client_refused(credential) == "handshake: the credential is not for uid 64030 alone");
  }
  SUBCASE("of another user than the server lets in") {
    Door narrow = door();
    narrow.user = 1001;
    CHECK(client_refused(credential, narrow) == "handshake: this job belongs to another user");
  }
  SUBCASE("the server's own") {
    CHECK(client_refused(from_client(good_server())) == "handshake: the credential was made for something else");
  }
  SUBCASE("of another program") {
    CHECK(client_refused(from_client("hello\n")) == "handshake: the credential was made for something else");
  }
  SUBCASE("empty") {
    CHECK(client_refused(from_client("")) == "handshake: the credential was made for something else");
  }
  SUBCASE("another service") {
    CHECK(client_refused(from_client(with(good, "service=worker", "service=planner"))) ==
          "handshake: service planner is not here; check the port");
  }
  SUBCASE("another job") {
    CHECK(client_refused(from_client(with(good, "job=17", "job=18"))) ==
          "handshake: the credential is for job 18, not 17");
  }
  SUBCASE("another port: a relay on the same node") {
    CHECK(
        client_refused(from_client(with(good, "0.2:20272", "0.2:20271"))) ==
        "handshake: the credential is for server 10.77.0.2:20271, not 10.77.0.2:20272: somebody passes the connection "
        "on, or the address is translated on the way");
  }
  SUBCASE("another address: a relay on another node") {
    CHECK(client_refused(from_client(with(good, "10.77.0.2", "10.77.0.3"))).find("for server 10.77.0.3:20272") !=
          std::string::npos);
  }
  SUBCASE("another server's user") {
    CHECK(client_refused(from_client(with(good, "server_uid=64030", "server_uid=0"))) ==
          "handshake: the credential is for server_uid 0, not 64030");
  }
  SUBCASE("another client's user than MUNGE says") {
    CHECK(client_refused(from_client(with(good, "client_uid=1000", "client_uid=1001"))) ==
          "handshake: the credential is for client_uid 1001, not 1000");
  }
  SUBCASE("the nonce of another connection") {
    CHECK(client_refused(from_client(with(good, kNonce1, kNonce2))).find("for server_nonce") != std::string::npos);
  }
  SUBCASE("a nonce that is none") {
    CHECK(client_refused(from_client(with(good, "client_nonce=22", "client_nonce=2g"))) ==
          "handshake: the credential's client_nonce is not 32 hex digits");
  }
  SUBCASE("another job's token") {
    CHECK(client_refused(from_client(with(good, "token=0", "token=1"))) == "handshake: the token is not this job's");
  }
  SUBCASE("no token") {
    CHECK(client_refused(from_client(with(good, kToken, ""))) == "handshake: the token is not this job's");
  }
  SUBCASE("a short key") {
    CHECK(client_refused(from_client(with(good, "key=aa", "key="))) ==
          "handshake: the credential's key is not 64 hex digits");
  }
  SUBCASE("a line more") {
    CHECK(client_refused(from_client(good + "job=18\n")) == "handshake: the credential has more lines than it should");
  }
  SUBCASE("a line missing") {
    CHECK(client_refused(from_client(with(good, "job=17\n", ""))) ==
          "handshake: the credential has no line \"job\" in its place");
  }
  SUBCASE("no end of the last line") {
    CHECK(client_refused(from_client(good.substr(0, good.size() - 1))) ==
          "handshake: the credential has no line \"key\" in its place");
  }
  SUBCASE("a value with control characters is not shown") {
    CHECK(client_refused(from_client(with(good, "job=17", "job=\x1b[2J"))) ==
          "handshake: the credential's job is not of the form it has");
  }
  SUBCASE("a value that is very long is not shown") {
    CHECK(client_refused(from_client(with(good, "job=17", "job=" + std::string(1000, '1')))) ==
          "handshake: the credential's job is not of the form it has");
  }
}

TEST_CASE("a server's credential with one thing wrong is refused, and the message names it") {
  const std::string good = good_server();
  Credential credential = from_server(good);
  SUBCASE("of another user") {
    credential.uid = 1001;
    CHECK(server_refused(credential) == "handshake: the server runs as uid 1001, not as uid 64030");
  }
  SUBCASE("not encrypted") {
    credential.encrypted = false;
    CHECK(server_refused(credential) == "handshake: the credential is not encrypted");
  }
  SUBCASE("for everybody") {
    credential.reader.reset();
    CHECK(server_refused(credential) == "handshake: the credential is not for uid 1000 alone");
  }
  SUBCASE("the client's own, sent back") {
    CHECK(server_refused(from_server(good_client())) == "handshake: the credential was made for something else");
  }
  for (const auto& [line, instead] :
       {std::pair{"service=worker", "service=keeper"}, std::pair{"job=17", "job=18"},
        std::pair{"0.2:20272", "0.2:20271"}, std::pair{"10.77.0.2", "10.77.0.3"},
        std::pair{"server_uid=64030", "server_uid=0"}, std::pair{"client_uid=1000", "client_uid=1001"},
        std::pair{"server_nonce=11", "server_nonce=12"}, std::pair{"client_nonce=22", "client_nonce=21"}})
    SUBCASE(instead) {
      CHECK(server_refused(from_server(with(good, line, instead))).find("the credential is for ") != std::string::npos);
    }
  SUBCASE("a short key") {
    CHECK(server_refused(from_server(with(good, "key=bb", "key="))) ==
          "handshake: the credential's key is not 64 hex digits");
  }
}

TEST_CASE("keys depend on everything that both texts say, and differ by direction") {
  const ChannelKeys keys = channel_keys(good_client(), good_server());
  CHECK(keys.to_server != keys.to_client);
  CHECK(channel_keys(good_client(), good_server()).to_server == keys.to_server);
  CHECK(channel_keys(with(good_client(), kKey1, std::string(64, 'c')), good_server()).to_server != keys.to_server);
  CHECK(channel_keys(good_client(), with(good_server(), kKey2, std::string(64, 'c'))).to_server != keys.to_server);
  CHECK(channel_keys(with(good_client(), "job=17", "job=18"), good_server()).to_server != keys.to_server);
  CHECK(channel_keys(good_client(), with(good_server(), "0.2:2", "0.2:3")).to_client != keys.to_client);
  CHECK_THROWS_AS(channel_keys("espalier 2 client\n", good_server()), Error);
}

TEST_CASE("a client does not log in at a server whose user it does not trust, or that breaks the protocol") {
  const auto refused = [](const Frame& challenge) {
    const auto login = client_login({Service::worker, 17, kToken, {kServerUser}}, "10.77.0.2:20272");
    return why_not([&] { login->answer(challenge); });
  };
  CHECK(refused({"challenge", {{"nonce", kNonce1}, {"uid", 1001u}}}) ==
        "handshake: the server runs as uid 1001, which is not trusted here");
  CHECK(refused({"challenge", {{"nonce", kNonce1}}}) == "handshake: challenge.uid: missing, or no user");
  CHECK(refused({"challenge", {{"nonce", kNonce1}, {"uid", -1}}}) == "handshake: challenge.uid: missing, or no user");
  CHECK(refused({"challenge", {{"nonce", kNonce1}, {"uid", 4294967295u}}}) ==
        "handshake: challenge.uid: missing, or no user");
  CHECK(refused({"challenge", {{"nonce", "x"}, {"uid", kServerUser}}}) ==
        "handshake: the nonce of \"challenge\" is not 32 hex digits");
  CHECK(refused({"challenge", {{"uid", kServerUser}}}) == "handshake: challenge.nonce: missing");
  CHECK(refused({"welcome", {}}) == "handshake: got \"welcome\" instead of \"challenge\"");
  CHECK(refused({"refused", {{"reason", "too many"}}}) == "handshake: refused: too many");
}

TEST_CASE("a server says who it is at once, with another nonce for each connection") {
  const auto at = std::make_shared<const Door>(door());
  const Frame one = *server_login(at, "10.77.0.2:1")->opening(), two = *server_login(at, "10.77.0.2:1")->opening();
  CHECK(one.body["uid"] == ::geteuid());
  CHECK(one.body["nonce"].get<std::string>().size() == 32);
  CHECK(one.body["nonce"] != two.body["nonce"]);
  CHECK(why_not([&] {
          server_login(at, "10.77.0.2:1")->answer({"query", {}});
        }) == "handshake: got \"query\" instead of \"login\"");
}
