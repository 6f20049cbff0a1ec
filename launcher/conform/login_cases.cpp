#include <unistd.h>

#include "launcher/conform/cases.hpp"

namespace espalier::launcher::conform {
namespace {

using Move = std::function<void(Line&)>;

// The worker must not take this for its launcher: it says no hello, and ends by itself with another code than 0.
void turns_away(
    Stage& stage, const Move& opening, const Move& answer = [](Line& line) { line.welcome(); }) {
  const int before = stage.door().connections();
  Generation generation(stage, 1, {{opening, answer}});
  generation.processes().leaves_failed();
  if (stage.door().connections() == before) throw Failure("it did not connect to ESPALIER_LAUNCHER");
  if (generation.hello().has_value()) throw Failure("it said hello to what is not its launcher");
}

Case silent(const std::string& name, const std::string& title, Move opening, bool brief = false) {
  return {name, title, [opening = std::move(opening)](Stage& stage) { turns_away(stage, opening); }, brief};
}

Case false_welcome(const std::string& name, const std::string& title,
                   const std::function<void(wire::LoginTerms&)>& change, bool with_key = true) {
  return {name, title, [change, with_key](Stage& stage) {
            turns_away(
                stage, [](Line& line) { line.challenge(); },
                [&](Line& line) { line.welcome(line.credential(change, with_key)); });
          }};
}

void with_variables(Stage& stage, std::vector<std::string> variables) {
  Generation generation(stage, 1, {{}, std::move(variables)});
  generation.processes().leaves_failed();
}

}  // namespace

std::vector<Case> login_cases() {
  const auto raw = [](std::string bytes) { return [bytes = std::move(bytes)](Line& line) { line.send_bytes(bytes); }; };
  const auto frame = [](wire::Frame one) { return [one = std::move(one)](Line& line) { line.send(one); }; };
  return {
      {"login", "it logs in and says hello",
       [](Stage& stage) {
         Generation generation(stage, 1);
         generation.say_hello();
       },
       true},
      {"login-more-fields", "it takes a challenge with fields that it does not know",
       [](Stage& stage) {
         const auto more = [](Line& line) { line.challenge({{"colour", "red"}, {"more", {{"x", 1}}}}); };
         Generation generation(stage, 1, {{more, [](Line& line) { line.welcome(); }}});
         generation.say_hello();
       }},
      {"login-byte-by-byte", "it takes a challenge that comes byte by byte",
       [](Stage& stage) {
         const auto slow = [](Line& line) { line.send_byte_by_byte(line.challenge_frame()); };
         Generation generation(stage, 1, {{slow, [](Line& line) { line.welcome(); }}});
         generation.say_hello();
       }},
      silent(
          "login-silence", "it gives up a launcher that says nothing", [](Line&) {}, true),
      silent("login-closed", "it ends where the stream is closed at once", [](Line& line) { line.close(); }),
      silent("login-http", "it ends where something else than Espalier answers",
             raw("HTTP/1.1 400 Bad Request\r\n\r\n")),
      silent("login-version", "it ends where the launcher speaks another version of the protocol",
             raw(std::string("ESP\x09\0\0\0\2{}", 10)), true),
      silent("login-large", "it ends where a frame of 100 MB is announced before the login",
             raw(std::string("ESP\2\x05\xf5\xe1\0{", 9))),
      silent("login-half", "it gives up a challenge that does not come whole",
             raw(std::string("ESP\2\0\0\1\0{\"type\"", 15))),
      silent("login-no-json", "it ends where a frame is no JSON", raw(std::string("ESP\2\0\0\0\4oops", 12))),
      silent("login-no-type", "it ends where a message has no type", raw(std::string("ESP\2\0\0\0\2{}", 10))),
      silent("login-nested", "it ends where a message is nested without end",
             [](Line& line) {
               const std::string body = "{\"type\":" + std::string(8000, '[');
               const auto size = static_cast<char>(body.size() >> 8);
               line.send_bytes(std::string("ESP\2\0\0", 6) + size + static_cast<char>(body.size() & 0xff) + body);
             }),
      silent("login-refused", "it ends where it is refused", frame({"refused", {{"reason", "the suite says so"}}})),
      silent(
          "login-other-user", "it does not log in at another user's launcher",
          [](Line& line) {
            line.challenge({{"uid", 54321}});
          },
          true),
      silent("login-no-nonce", "it does not log in without a nonce", frame({"challenge", {{"uid", ::getuid()}}})),
      silent("login-bad-nonce", "it does not log in with a nonce that is none",
             [](Line& line) {
               line.challenge({{"nonce", "../../etc/passwd\n"}});
             }),
      silent("login-skipped", "it takes no message before the login", frame({"assign", {{"plan", nullptr}}})),
      {"welcome-garbage", "it does not take a welcome with a credential that is none",
       [](Stage& stage) {
         turns_away(
             stage, [](Line& line) { line.challenge(); }, [](Line& line) { line.welcome("MUNGE:garbage:"); });
       }},
      {"welcome-refused", "it ends where it is refused instead of welcomed",
       [](Stage& stage) {
         turns_away(
             stage, [](Line& line) { line.challenge(); },
             [](Line& line) {
               line.send(wire::Frame{"refused", {{"reason", "the suite says so"}}});
             });
       }},
      {"welcome-silence", "it gives up a launcher that does not answer the login",
       [](Stage& stage) {
         turns_away(
             stage, [](Line& line) { line.challenge(); }, [](Line&) {});
       }},
      false_welcome("welcome-other-nonce", "it does not take the welcome of another login",
                    [](wire::LoginTerms& terms) { terms.client_nonce = std::string(32, '0'); }),
      false_welcome("welcome-passed-on", "it does not take a welcome that somebody passes on from another address",
                    [](wire::LoginTerms& terms) { terms.server = "10.1.2.3:4711"; }),
      false_welcome("welcome-other-job", "it does not take the welcome of another job",
                    [](wire::LoginTerms& terms) { terms.job = 17; }),
      false_welcome(
          "welcome-no-key", "it does not take a welcome without a key", [](wire::LoginTerms&) {}, false),
      {"environment-address", "it refuses an ESPALIER_LAUNCHER that is no address",
       [](Stage& stage) { with_variables(stage, {"ESPALIER_LAUNCHER=nowhere"}); }},
      {"environment-nobody", "it ends where nobody listens at ESPALIER_LAUNCHER",
       [](Stage& stage) { with_variables(stage, {"ESPALIER_LAUNCHER=127.0.0.1:1"}); }},
      {"environment-generation", "it refuses an ESPALIER_GENERATION that is no number",
       [](Stage& stage) { with_variables(stage, {"ESPALIER_GENERATION=next"}); }},
  };
}

}  // namespace espalier::launcher::conform
