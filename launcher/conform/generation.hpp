// The ranks of one generation on the stage, and what a launcher says to them. Every wait has a limit, and throws
// Failure that names the rank and the message when the limit passes or something else comes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/conform/rank_processes.hpp"
#include "launcher/conform/record.hpp"
#include "launcher/conform/stage.hpp"

namespace espalier::launcher::conform {

// How the ranks of a generation are started.
struct Start {
  Line::Greeting greeting = {};
  std::vector<std::string> variables = {};  // "NAME=value", instead of those that a launcher sets
  int unit = 0;                             // GPUs of a replica; 0: as the program prefers
  int steps = 0;                            // by the program's option for them; 0: as its arguments say
  bool spread = false;                      // in the plan the last replica is on another node than the first
};

class Generation {
 public:
  // Starts the ranks of so many replicas of the program. Its end: SIGKILL to them. Throws Error.
  Generation(Stage& stage, int replicas, Start start = {});

  int number() const { return number_; }
  int size() const { return static_cast<int>(gpus_.size()); }
  const Plan& plan() const { return plan_; }
  const std::optional<wire::WorkerHello>& hello() const { return hello_; }  // of the first rank that said it
  Record& record() { return record_; }
  RankProcesses& processes() { return processes_; }
  Line& line(int rank);

  // ---- from the start to the first step
  void say_hello();  // waits until all ranks have said hello
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
  // The next message of this rank, which must be of this type. Steps, profiles and heartbeats are in record().
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
  void leaves_well();                   // all ranks end with code 0, and have broken no rule

 private:
  StageDoor::Callbacks of_door();
  void adopt(std::unique_ptr<Line> line, const wire::WorkerHello& worker);
  std::string words() const;  // of `failed`, and of what broke the protocol

  Stage& stage_;
  const int number_;
  const int unit_;
  std::vector<GpuId> gpus_;
  const bool spread_;
  Plan plan_;
  std::optional<wire::WorkerHello> hello_;
  std::map<int, std::unique_ptr<Line>> lines_;  // by rank
  Record record_;
  RankProcesses processes_;
  const StageDoor::Entry entry_;
};

}  // namespace espalier::launcher::conform
