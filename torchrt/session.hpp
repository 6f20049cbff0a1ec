// A worker's side of espalier-worker(7) from hello to its last word: what is said and heard, in which order, and which
// waits have a limit. What a worker trains, and how its state moves, is not looked at here. The trainer's own worker
// and the C interface (espalier/worker.h) stand on it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "torchrt/control.hpp"
#include "torchrt/worker.hpp"

namespace espalier::torchrt {

// For one thread, but for what Control does on its own.
class Session {
 public:
  // Logs in. Throws Error when the launcher cannot be reached or is not the job's.
  explicit Session(const WorkerEnvironment& environment);

  // Every method throws ConnectionLost when the launcher is gone, and Error when something comes that is not expected
  // or nothing within ESPALIER_PATIENCE. Every wait throws LeaveNow at `exit`. A `checkpoint` may come at any time:
  // where it cannot be written at once it is remembered until take_checkpoint().

  // ---- the start, in this order
  void hello(const wire::Frame& hello) { control_.send(hello); }
  wire::Assign assignment();
  void ready(const wire::Ready& ready = {}) { control_.send(ready); }
  // With a source: load(), given() where load() says `giving`, loaded().
  wire::Load load();
  void given();
  void loaded(const wire::Loaded& loaded) { control_.send(loaded); }
  void committed();  // waits for it

  // ---- while it trains
  void step(const wire::Step& step) { control_.send(step); }  // rank 0
  void progress() { control_.progress(); }                    // with work that is no step, e.g. a validation
  void profile(const wire::Frame& profile) { control_.send(profile); }
  // Whether the launcher has asked to stand at a boundary. Call it as late in a step as possible, before all ranks
  // agree on whether to stand after it.
  bool switch_wanted();
  // True once after each `checkpoint` that switch_wanted(), or a wait before it, has heard of.
  bool take_checkpoint() { return std::exchange(checkpoint_, false); }
  // Slurm takes this extension back.
  void notice(JobId job) { control_.send(wire::Notice{job}); }

  // ---- at the boundary on which all ranks have agreed
  // What to answer. A rank that has not heard of the request that the others have heard of waits for it, a minute at
  // most.
  const wire::Switch& stand();
  // That came with it, of the pipeline's schedule, as CSV; empty: none.
  const std::string& lists() const { return requests_.front().lists; }
  void standing(std::int64_t step) { control_.send(wire::Standing{step}); }
  // The answer. `meanwhile` runs after it was sent. Returns at `resume`, with its plan; throws LeaveNow at `exit`.
  std::optional<Plan> switched(const wire::Switched& switched, const std::function<void()>& meanwhile);

  // ---- the end
  void done(std::int64_t step) { control_.send(wire::Done{step}); }
  // The last words of a worker that fails. False: the launcher is gone.
  bool failed(const wire::Failed& words);
  // From now on the launcher may hang up, because the process is about to end by itself.
  void farewell() { control_.farewell(); }

 private:
  // A `switch` that this rank has not answered yet. A `resume` that overtakes the boundary only shortens the stop:
  // ranks may see it at different steps, but every `switch` must be answered by all.
  struct Request {
    wire::Switch message;
    std::string lists;
    bool resumed = false;
  };
  static Request request_of(const wire::Frame& frame);
  template <class Message>
  wire::Frame await_frame(Control::Milliseconds timeout);
  template <class Message>
  Message await(Control::Milliseconds timeout) {
    return wire::from_frame<Message>(await_frame<Message>(timeout));
  }
  Control control_;
  const Control::Milliseconds patience_;  // the launcher's own limits are shorter
  std::deque<Request> requests_;
  bool checkpoint_ = false;
};

}  // namespace espalier::torchrt
