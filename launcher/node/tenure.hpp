// When a keeper looks for its launcher, what it says to it, and when it leaves. Pure: the keeper brings time, frames
// and signals.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace espalier::launcher {

// Of an extension.
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

// Of a node of the anchor. It stays until it is told to leave: a task that ends may end the step, and the
// node's state is with it. But a launcher whose host says for long that nobody listens there any more has ended, and
// the word of that was lost.
class AnchorTenure {
 public:
  using Time = Tenure::Time;
  explicit AnchorTenure(Time start) : since_(start) {}

  void found() { found_ = true, nobody_since_.reset(); }
  void lost(Time now) { since_ = now; }
  // All ports were tried. `nobody`: at none of them is the launcher, nor will it be.
  void looked(Time now, bool nobody);
  bool stays(Time now) const;
  std::chrono::milliseconds pause(Time now) const;  // until they are tried again

 private:
  Time since_;  // without a launcher
  bool found_ = false;
  std::optional<Time> nobody_since_;
};

}  // namespace espalier::launcher
