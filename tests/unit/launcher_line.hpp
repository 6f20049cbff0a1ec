// A connection that keeps what is sent on it.
#pragma once

#include <string>
#include <vector>

#include "planner/wire/server.hpp"

namespace espalier::launcher::cases {

class Line final : public wire::Connection {
 public:
  const wire::Peer& peer() const override { return peer_; }
  void send(const wire::Frame& frame) override { sent.push_back(frame); }
  void close() override { closed = true; }
  void limit_frames(std::size_t, wire::Loop::Milliseconds) override {}
  using Connection::send;
  // The types of the messages, each with a space behind it.
  std::string types() const {
    std::string text;
    for (const wire::Frame& frame : sent) text += frame.type + " ";
    return text;
  }
  std::vector<wire::Frame> sent;
  bool closed = false;

 private:
  wire::Peer peer_;
};

}  // namespace espalier::launcher::cases
