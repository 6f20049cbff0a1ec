// The ranks of one generation on the stage, and what a launcher says to them. Every wait has a limit, and throws
// Failure that names the rank and the message when the limit passes or something else comes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/conform/stage.hpp"

namespace espalier::launcher::conform {

// How the ranks of a generation are started.
struct Start {
  Line::Greeting greeting = {};
  std::vector<std::string> variables = {};  // "NAME=value", instead of those that a launcher sets
  int unit = 0;                             // GPUs of a replica; 0: as the program prefers
  int steps = 0;                            // by the program's option for them; 0: as its arguments say
};

class Generation {
 public:
  // Starts the ranks of so many replicas of the program.
  Generation(Stage& stage, int replicas, Start start = {});
  ~Generation();  // SIGKILL to the ranks
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  int number() const { return number_; }
  int size() const { return static_cast<int>(gpus_.size()); }
  const std::vector<GpuId>& gpus() const { return gpus_; }
  const Plan& plan() const { return plan_; }
  bool has_hello() const { return hello_.has_value(); }
  const wire::WorkerHello& hello() const { return *hello_; }
  Line& line(int rank);

  // ---- from the start to the first step
  void say_hello();  // waits until all ranks have said hello
  // In the plan the last replica is on another node than the first.
  void spread() { spread_ = true; }
  wire::Assign assignment(const std::optional<wire::Assign::Source>& source = std::nullopt);
  void assign(const std::optional<wire::Assign::Source>& source = std::nullopt) { tell(assignment(source)); }
  void ready();  // waits for it
  void live();   // all of that, `commit`, and two steps
  wire::Assign::Source as_source(bool recovery = false) const;

  // ---- messages
  template <class Message>
  void tell(const Message& message) {
    tell(wire::to_frame(message));
  }
  void tell(const wire::Frame& frame);
  // The next message of this rank, which must be of this type. Steps, profiles, heartbeats and notices are noted.
  wire::Frame expect(int rank, const std::string& type, double seconds = 0);  // 0: the stage's patience
  template <class Message>
  std::vector<Message> expect_all(double seconds = 0) {
    std::vector<Message> all;
    for (int rank = 0; rank < size(); ++rank)
      all.push_back(wire::from_frame<Message>(expect(rank, Message::type, seconds)));
    return all;
  }
  // All ranks answer a `switch`: they stand after the step that is returned.
  std::int64_t stands();
  // The next generation's ranks have the state after `step`: they all say so.
  wire::Loaded loaded(std::int64_t step);
  void trains_past(std::int64_t step);  // of rank 0's messages `step`
  std::int64_t step() const { return step_; }
  void forget_steps() { step_ = -1; }
  void trains_from(std::int64_t step) { step_ = step; }
  int profiles() const { return profiles_; }
  int heartbeats(int rank) const;
  // Nothing of this type waits or has come.
  bool has_said(int rank, const std::string& type) const;

  // ---- the end
  void leaves_well();    // all ranks end with code 0
  void leaves_failed();  // all ranks end by themselves, with another code than 0 and not by a signal
  void ends();           // all ranks end, whatever their codes
  bool any_ended() const { return !codes_.empty(); }
  bool ended() const { return codes_.size() == gpus_.size(); }
  void kill(int rank);  // SIGKILL to one
  void signal(int number) const { ranks_->signal(number); }
  void drop() { ranks_.reset(); }  // SIGKILL to all

 private:
  void adopt(std::unique_ptr<Line> line, const wire::WorkerHello& worker);
  void note(int rank);
  void note_all();
  std::string words() const;  // of `failed`

  Stage& stage_;
  const int number_;
  Start start_;
  const int unit_;
  std::vector<GpuId> gpus_;
  bool spread_ = false;
  Plan plan_;
  std::optional<wire::WorkerHello> hello_;
  std::map<int, std::unique_ptr<Line>> lines_;
  std::map<int, std::deque<wire::Frame>> inbox_;
  std::map<int, int> heartbeats_, codes_, processes_;
  std::string failed_, broken_;  // last words; what no worker may say
  std::string lost_;             // why the ranks could not be played with: no fault of theirs
  std::int64_t step_ = -1;
  int profiles_ = 0;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace espalier::launcher::conform
