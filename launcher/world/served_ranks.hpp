// The ranks of one generation on their rank servers, as the launcher sees them: which have ended, and what their
// servers tell one another through the launcher.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "launcher/process/awake_timer.hpp"
#include "launcher/world/fences.hpp"
#include "launcher/world/paced_sends.hpp"
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
    PacedSends<ServerId>::Send send;           // of an encoded frame; nothing happens when the server is not there
    std::function<void()> forget;              // this object ends
    PacedSends<ServerId>::Unread unread = {};  // of what `send` has sent; empty: servers read at once
  };
  // A server that was not there `start` after the beginning is taken for lost. Time in which Slurm has the job
  // suspended does not count.
  ServedRanks(wire::Loop& loop, const WorldRequest& request, std::chrono::seconds start, Links links,
              RanksCallbacks callbacks, AwakeLooks looks = {});
  ~ServedRanks() override;
  ServedRanks(const ServedRanks&) = delete;
  ServedRanks& operator=(const ServedRanks&) = delete;

  bool running() const override { return ends_.left() > 0; }
  void signal(int number) const override;

  bool uses(const ServerId& id) const { return places_.contains(id); }
  // The server is there. `base64`: it reads FenceDone::base64.
  void came(const ServerId& id, bool base64 = false);
  void gone(const ServerId& id, const std::string& why);
  void handle(const ServerId& id, const wire::Frame& frame);  // throws Error

 private:
  struct Place {
    std::size_t index = 0;  // in request_.places
    bool there = false;     // its server is
    bool asked = false;     // it was asked to start its ranks, or the request waits in sends_
    bool gone = false;
    bool base64 = false;
  };
  // What is done to ranks that are still there.
  enum class Stop { none, first_ended, aborted };
  void ask(const ServerId& id, Place& place);
  void fail(const std::string& why);
  void aborted(const wire::RankAborted& message);
  void pass_on(const ServerId& asker, wire::ModexWanted question);
  void stop_others();
  bool give_up_unasked();
  void enter(std::size_t place, const wire::FenceEntered& entered);
  void break_fences();
  void conclude();
  const std::shared_ptr<const std::string>& request_text();
  template <class Message>
  void tell(const ServerId& id, const Message& message) const;
  template <class Message>
  void tell_all(const Message& message) const;
  void tell_all_done(std::int64_t number, const std::string& bytes) const;

  wire::Loop& loop_;
  wire::RunRanks request_;  // but for `here`
  // The request as JSON without `here`, once it says where all ranks meet. It names every rank, so that it is made once
  // and not once for each server.
  std::shared_ptr<const std::string> request_text_;
  Links links_;
  RanksCallbacks callbacks_;
  std::map<ServerId, Place> places_;
  std::vector<ServerId> by_rank_;
  RankEnds ends_;
  Stop stop_ = Stop::none;
  Fences fences_{0};  // between places
  Questions questions_;
  // Its messages count as sent for this object, so that const members may add some.
  mutable PacedSends<ServerId> sends_;
  AwakeTimer start_;
  wire::Watch kill_;
};

}  // namespace espalier::launcher
