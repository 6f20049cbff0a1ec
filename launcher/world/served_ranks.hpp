// The ranks of one generation on their rank servers, as the launcher sees them: which have ended, and what their
// servers tell one another through the launcher.
#pragma once

#include <map>

#include "launcher/world/fences.hpp"
#include "launcher/world/questions.hpp"
#include "launcher/world/rank_ends.hpp"
#include "launcher/world/ranks.hpp"
#include "planner/wire/loop.hpp"
#include "planner/wire/rank_messages.hpp"

namespace espalier::wire {
struct Frame;
}

namespace espalier::launcher {

class ServedRanks final : public Ranks {
 public:
  struct Links {
    std::function<void(const ServerId&, const wire::Frame&)> send;  // nothing happens when the server is not there
    std::function<void()> forget;                                   // this object ends
  };
  // A server that was not there `start` after the beginning is taken for lost.
  ServedRanks(wire::Loop& loop, const WorldRequest& request, std::chrono::seconds start, Links links,
              RanksCallbacks callbacks);
  ~ServedRanks() override;
  ServedRanks(const ServedRanks&) = delete;
  ServedRanks& operator=(const ServedRanks&) = delete;

  bool running() const override { return ends_.left() > 0; }
  void signal(int number) const override;

  bool uses(const ServerId& id) const { return places_.contains(id); }
  void came(const ServerId& id);  // the server is there
  void gone(const ServerId& id, const std::string& why);
  void handle(const ServerId& id, const wire::Frame& frame);  // throws Error

 private:
  struct Place {
    std::size_t index = 0;  // in request_.places
    bool there = false;     // its server is
    bool asked = false;     // its ranks were started
    bool gone = false;
  };
  // What is done to ranks that are still there.
  enum class Stop { none, first_ended, aborted };
  void aborted(const wire::RankAborted& message);
  void pass_on(const ServerId& asker, wire::ModexWanted question);
  void stop_others();
  void enter(std::size_t place, const wire::FenceEntered& entered);
  void break_fences();
  void conclude();
  template <class Message>
  void tell(const ServerId& id, const Message& message) const;
  template <class Message>
  void tell_all(const Message& message) const;

  wire::Loop& loop_;
  wire::RunRanks request_;  // but for `here`
  Links links_;
  RanksCallbacks callbacks_;
  std::map<ServerId, Place> places_;
  std::vector<ServerId> by_rank_;
  RankEnds ends_;
  Stop stop_ = Stop::none;
  Fences fences_{0};  // between places
  Questions questions_;
  wire::Watch start_, kill_;
};

}  // namespace espalier::launcher
