#include "launcher/conform/cases.hpp"

namespace espalier::launcher::conform {
namespace {

// After its hello the worker gets these bytes, which its launcher cannot have sent. It must end by itself.
Case broken(const std::string& name, const std::string& title, std::function<void(Line&)> send, bool brief = false) {
  const auto play = [send = std::move(send)](Stage& stage) {
    Generation generation(stage, 1);
    generation.say_hello();
    for (int rank = 0; rank < generation.size(); ++rank) send(generation.line(rank));
    generation.processes().leaves_failed();
  };
  return {name, title, play, brief};
}

const wire::Frame kRefused{"refused", {{"reason", "the suite says so"}}};

}  // namespace

std::vector<Case> stream_cases() {
  return {
      broken(
          "stream-untagged", "it takes no frame without a tag",
          [](Line& line) {
            line.send_bytes(wire::encode({"exit", Json::object()}) + std::string(16, '\0'));
          },
          true),
      broken("stream-changed", "it takes no frame that was changed on the way",
             [](Line& line) {
               std::string bytes = line.encode({"exit", {{"x", 1}}});
               bytes[bytes.size() - 18] ^= 1;
               line.send_bytes(bytes);
             }),
      broken("stream-repeated", "it takes no frame twice",
             [](Line& line) {
               const std::string bytes = line.encode({"checkpoint", Json::object()});
               line.send_bytes(bytes + bytes);
             }),
      broken("stream-dropped", "it takes no frame after one that is missing",
             [](Line& line) {
               line.encode({"exit", Json::object()});
               line.send(wire::Frame{"exit", Json::object()});
             }),
      broken(
          "stream-large", "it ends where a frame of 100 MB is announced, without waiting for it",
          [](Line& line) { line.send_bytes(std::string("ESP\2\x05\xf5\xe1\0{", 9)); }, true),
      broken("stream-version", "it ends where a frame is of another version",
             [](Line& line) { line.send_bytes(std::string("ESP\1\0\0\0\2{}", 10) + std::string(16, 'x')); }),
      broken("stream-unknown", "it ends where a message comes that it does not know",
             [](Line& line) {
               line.send(wire::Frame{"dance", {{"how", "well"}}});
             }),
      broken(
          "stream-closed", "it ends where the launcher hangs up after the hello", [](Line& line) { line.close(); },
          true),
      broken("stream-refused", "it ends where its hello is refused", [](Line& line) { line.send(kRefused); }),
      {"stream-exit", "it leaves with code 0 where `exit` answers its hello",
       [](Stage& stage) {
         Generation generation(stage, 1);
         generation.say_hello();
         generation.tell(wire::Exit{});
         generation.leaves_well();
       },
       true},
  };
}

}  // namespace espalier::launcher::conform
