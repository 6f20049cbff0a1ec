// When the keeper of an extension looks for its launcher, what it says to it, and when it leaves. Pure: the keeper
// brings time, frames and signals.
#pragma once

#include <chrono>
#include <string>

namespace espalier::launcher {

class Tenure {
 public:
  using Time = std::chrono::steady_clock::time_point;
  Tenure(Time start, std::chrono::milliseconds heartbeat);

  // Without a connection: whether to try for one. False: leave, and fence the node.
  bool looks(Time now) const;
  void connected(Time now);  // and the hello was sent
  // A frame of the launcher. False: this connection is over.
  bool hears(const std::string& type, Time now);
  void signalled() { signalled_ = true; }  // Slurm wants the node back

  // What is due on the connection, at least once per heartbeat.
  struct Turn {
    bool notice = false, heartbeat = false;
    bool lost = false;  // the launcher was silent for too long: this connection is over
  };
  Turn turn(Time now);
  bool taken_on() const { return taken_on_; }

 private:
  std::chrono::milliseconds heartbeat_;
  Time start_, until_;
  Time heard_{}, sent_{};
  bool taken_on_ = false, over_ = false, signalled_ = false, told_ = false;
};

}  // namespace espalier::launcher
