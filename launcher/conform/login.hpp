// The launcher's side of one worker's login, played by hand: what is sent, and what it must not be.
#pragma once

#include <functional>
#include <string>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/framing.hpp"
#include "planner/wire/handshake.hpp"

namespace espalier::launcher::conform {

class Login {
 public:
  // `socket`: the worker's connection, whose own address the worker has called.
  Login(const wire::Descriptor& socket, const wire::Door& door);

  // Fields of `changes` replace those of a good challenge.
  wire::Frame challenge(const Json& changes) const;
  // Takes the worker's `login`. Throws Error when it is none, or not good.
  void take(const wire::Frame& frame);
  // The credential that answers it, and the keys of all that follows.
  std::string credential() const;
  wire::ChannelKeys keys() const;
  // The credential with changes.
  std::string credential(const std::function<void(wire::LoginTerms&)>& change, bool with_key) const;

 private:
  const wire::Door door_;
  wire::LoginTerms terms_;
  std::string client_;  // the text of the worker's credential
};

}  // namespace espalier::launcher::conform
