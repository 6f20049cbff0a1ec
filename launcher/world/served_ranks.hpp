// The ranks of one generation on their rank servers, as the launcher sees them: which have ended, and what their
// servers tell one another through the launcher.
#pragma once

#include <map>
#include <optional>
#include <set>

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

  bool running() const override { return left_ > 0; }
  void signal(int number) const override;

  bool uses(const ServerId& id) const { return places_.contains(id); }
  void came(const ServerId& id);  // the server is there
  void gone(const ServerId& id, const std::string& why);
  void handle(const ServerId& id, const wire::Frame& frame);  // throws Error

 private:
  struct Fence {
    std::map<std::size_t, std::string> data;  // by place
  };
  struct Place {
    std::size_t index = 0;  // in request_.places
    bool there = false;     // its server is
    bool asked = false;     // its ranks were started
    bool gone = false;
  };
  void end_rank(int rank, int code);
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
  std::vector<bool> ended_;  // by rank
  int left_;                 // ranks that have not ended
  int code_ = 0;             // of the first that failed
  bool stopping_ = false, aborted_ = false;
  bool broken_ = false;  // a server is gone: no fence will be complete
  std::map<std::int64_t, Fence> fences_;
  // Questions of one server to another: the asker and its ticket, by a ticket of ours.
  std::map<std::int64_t, std::pair<ServerId, std::int64_t>> questions_;
  std::int64_t last_question_ = 0;
  wire::Watch start_, kill_;
};

}  // namespace espalier::launcher
