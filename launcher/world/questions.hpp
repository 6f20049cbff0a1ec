// Questions of one rank server to another, which the launcher passes on: who has asked, and under which ticket. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "launcher/world/placement.hpp"

namespace espalier::launcher {

class Questions {
 public:
  struct Asker {
    ServerId server;
    std::int64_t ticket = 0;  // of its own
  };
  bool full() const { return open_.size() >= kMost; }
  // A ticket under which the question is passed on.
  std::int64_t ask(const ServerId& server, std::int64_t ticket) {
    open_[++last_] = {server, ticket};
    return last_;
  }
  // Who gets the answer under such a ticket, once. nullopt: nobody asked.
  std::optional<Asker> answer(std::int64_t ticket) {
    const auto at = open_.find(ticket);
    if (at == open_.end()) return std::nullopt;
    const Asker asker = at->second;
    open_.erase(at);
    return asker;
  }

 private:
  static constexpr std::size_t kMost = 100000;  // unanswered
  std::map<std::int64_t, Asker> open_;
  std::int64_t last_ = 0;
};

}  // namespace espalier::launcher
