// Takes questions of all users, has them answered, and bounds what a user's questions may cost: the daemon's time,
// bytes of answers, and answers that are not read. Users take turns. The answers of a connection come in the order of
// its questions.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "planner/daemon/allowance.hpp"
#include "planner/daemon/fair_queue.hpp"
#include "planner/daemon/question_thread.hpp"

namespace espalier {

class QuestionDesk {
 public:
  // Answers at once, on the loop. May throw Error: the query is then refused with its message.
  using OnQuery = std::function<Json(const wire::Query&, const wire::Peer&)>;
  // Has questions answered elsewhere.
  using OnLater = std::function<void(const wire::Query&, const wire::Peer&, QuestionThread::Done)>;
  struct Sources {
    OnQuery at_once;
    OnLater later = {};                                          // empty: all are answered at once
    std::function<bool(const std::string& what)> is_later = {};  // which questions go to `later`
  };
  struct Rules {
    std::function<bool(uid_t)> trusts;            // no limits for this user
    std::function<std::size_t(uid_t)> unread_of;  // bytes of answers that the user's connections have not taken
    // Refuses a question whose answer has failed after ask() returned, and closes the connection.
    std::function<void(const wire::ConnectionPtr&, const std::string& why)> refuse;
  };
  QuestionDesk(Sources sources, Rules rules) : sources_(std::move(sources)), rules_(std::move(rules)) {}

  // One connection's questions. Belongs to the connection's callbacks.
  struct Dialogue {
    std::weak_ptr<wire::Connection> link;
    bool busy = false;  // a question waits or is being answered
    std::deque<wire::Query> behind;
  };
  using DialoguePtr = std::shared_ptr<Dialogue>;
  static DialoguePtr dialogue(const wire::ConnectionPtr& link) {
    auto fresh = std::make_shared<Dialogue>();
    fresh->link = link;
    return fresh;
  }

  // Throws Error when the question is refused at once. `bytes`: of its message.
  void ask(const DialoguePtr& dialogue, const wire::Query& question, std::size_t bytes);

 private:
  struct Waiting {
    DialoguePtr dialogue;
    wire::Query question;
  };
  void take(const DialoguePtr& dialogue, const wire::ConnectionPtr& link, const wire::Query& question);
  void answer_now(const wire::ConnectionPtr& link, const wire::Query& question);
  void check_allowance(uid_t uid);
  void charge(uid_t uid, double seconds, std::size_t bytes);
  void serve();
  void answered(const DialoguePtr& dialogue, uid_t uid, const Answer& answer);

  Sources sources_;
  Rules rules_;
  FairQueue<Waiting> queue_;
  std::size_t under_way_ = 0;
  bool serving_ = false;  // serve() runs
  // An ordinary user's questions: seconds of the daemon's own time, bytes of answers.
  Spending seconds_{{1, 0.1}, {0, 0}};
  Spending bytes_{{16 << 20, 1 << 20}, {0, 0}};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace espalier
