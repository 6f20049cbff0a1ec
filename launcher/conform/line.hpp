// The launcher's end of one worker's stream, played by hand: the conformance suite sends through it what a launcher
// should send, and what it must never send.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "launcher/conform/login.hpp"
#include "planner/wire/loop.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher::conform {

class Line {
 public:
  // What the launcher's side does at a connection, and with the worker's `login`. The default is a good launcher's.
  struct Greeting {
    std::function<void(Line&)> opening = [](Line& line) { line.challenge(); };
    std::function<void(Line&)> answer = [](Line& line) { line.welcome(); };
  };
  // `on_change` runs after each frame and at the end of the stream, on the loop.
  Line(wire::Loop& loop, wire::Descriptor socket, const wire::Door& door, Greeting greeting,
       std::function<void()> on_change);
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // ---- the login
  // Fields of `changes` replace those of a good challenge.
  wire::Frame challenge_frame(const Json& changes = Json::object()) const { return login_.challenge(changes); }
  void challenge(const Json& changes = Json::object()) { send(challenge_frame(changes)); }
  void welcome();                               // to the worker that has sent `login`
  void welcome(const std::string& credential);  // with this in the place of the credential
  // A credential as welcome() sends it, with changes.
  std::string credential(const std::function<void(wire::LoginTerms&)>& change, bool with_key = true) const {
    return login_.credential(change, with_key);
  }

  // ---- frames
  template <class Message>
  void send(const Message& message) {
    send(wire::to_frame(message));
  }
  void send(const wire::Frame& frame) { send_bytes(framing_.encode(frame)); }
  std::string encode(const wire::Frame& frame) { return framing_.encode(frame); }
  // A peer that does not take the bytes within 5 s is given up.
  void send_bytes(const std::string& bytes);
  void send_byte_by_byte(const wire::Frame& frame);
  void close();            // both directions
  void read(bool wanted);  // false: what comes stays in the kernel's buffers

  bool logged_in() const { return logged_in_; }
  bool ended() const { return !socket_; }
  bool said_anything() const { return said_anything_; }
  const std::string& nonsense() const { return nonsense_; }  // what it said that breaks the protocol; empty: nothing
  std::deque<wire::Frame> frames;  // of the worker, after the login; the reader takes them out

 private:
  void take();
  void handle(wire::Frame frame);

  wire::Loop& loop_;
  wire::Descriptor socket_;
  Login login_;
  Greeting greeting_;
  std::function<void()> on_change_;
  wire::Framing framing_;
  std::string input_;
  std::string nonsense_;
  bool logged_in_ = false, said_anything_ = false;
  wire::Watch readable_;
};

}  // namespace espalier::launcher::conform
