// Answers questions of read_answers.hpp on a thread of its own, from a read-only connection to the decision store and
// from what the planner knew when the question came to its turn.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "planner/daemon/answers.hpp"
#include "planner/wire/server.hpp"
#include "planner/wire/side_thread.hpp"

namespace espalier {

struct Answer {
  std::string frame;    // of a Reply, as wire::encode() makes it; empty: the question is refused
  std::string refused;  // why, for the user
  double seconds = 0;   // of a thread's computing
};

class QuestionThread {
 public:
  using Done = std::function<void(Answer)>;
  // `planner` and `answers` must outlive this object. `store`: the file of the decision store, which is open.
  // Throws Error.
  QuestionThread(wire::Loop& loop, Planner& planner, const Answers& answers, const std::string& store);

  // `done` runs on the loop, and not after this object has gone.
  void ask(const wire::Query& query, const wire::Peer& peer, Done done);

 private:
  Planner& planner_;
  const Answers& answers_;
  std::shared_ptr<ReadAnswers> reader_;  // used by the thread alone
  wire::SideThread thread_;              // ends first
};

}  // namespace espalier
