// Decides when a keeper looks for its launcher, what the keeper sends to it, and when the keeper leaves. Pure: the
// keeper passes time, frames and signals.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace espalier::launcher {

// For the keeper of an extension.
class Tenure {
 public:
  using Time = std::chrono::steady_clock::time_point;
  Tenure(Time start, std::chrono::milliseconds heartbeat);

  // For a keeper without a connection. True: it tries to connect. False: it fences the node and leaves. False after
  // GiveBack, after the loss of a launcher that had accepted this keeper, and when the time to find the launcher is
  // over.
  bool looks(Time now) const;
  void connected(Time now);  // the keeper has a connection and has sent its hello
  // The launcher sent a frame. False: this connection is over.
  bool hears(const std::string& type, Time now);
  void signalled() { signalled_ = true; }  // Slurm takes the node back

  // What the keeper must do on its connection. Ask at least once per heartbeat.
  struct Turn {
    bool notice = false, heartbeat = false;
    bool lost = false;  // the launcher was silent for too long: this connection is over
  };
  Turn turn(Time now);
  bool taken_on() const { return taken_on_; }  // the launcher has accepted this keeper

 private:
  std::chrono::milliseconds heartbeat_;
  Time start_, until_;
  Time heard_{}, sent_{};
  bool taken_on_ = false, over_ = false, signalled_ = false, told_ = false;
};

// How long the keeper on a node of the anchor stays. It stays until the launcher tells it to leave: a task that ends
// may end the step, and the node's state ends with the keeper. There are two exceptions. (1) The keeper had found the
// launcher, and for a long time now the launcher's host answers that nothing listens there. The launcher has ended, and
// its word to leave was lost. (2) For half an hour the keeper has found no launcher, and the program did not run
// without one. The launcher ended before this keeper could hear of it.
class AnchorTenure {
 public:
  using Time = Tenure::Time;
  explicit AnchorTenure(Time start) : since_(start), alone_since_(start) {}

  void found() { found_ = true, nobody_since_.reset(); }
  void lost(Time now) { since_ = now; }
  // All places were tried. `nobody`: the launcher's host answered at each of them that nobody listens there.
  void looked(Time now, bool nobody);
  void program_runs(Time now) { alone_since_ = now; }  // without a launcher, in another step of the job
  bool stays(Time now) const;
  std::chrono::milliseconds pause(Time now) const;  // until the places are tried again

 private:
  Time since_;        // the start, or the last loss of the launcher
  Time alone_since_;  // the start, or when the program was last seen to run without a launcher
  bool found_ = false;
  std::optional<Time> nobody_since_;
};

}  // namespace espalier::launcher
