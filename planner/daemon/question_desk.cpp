#include "planner/daemon/question_desk.hpp"

#include <utility>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"

namespace espalier {
namespace {

// Answers that wait to be read, of one connection and of all of a user's.
constexpr std::size_t kMostUnread = 512u << 10, kMostUnreadOfUser = 8u << 20;
constexpr std::size_t kLongestQuestion = 2u << 10;  // bytes, of one that has to wait
// Of one connection, behind the one that is being answered. The tools ask one after the other.
constexpr std::size_t kMostBehind = 8;
// Given to `later` and not back yet. Enough to keep its thread busy; the rest waits where users take turns.
constexpr std::size_t kMostUnderWay = 4;

}  // namespace

void QuestionDesk::ask(const DialoguePtr& dialogue, const wire::Query& question, std::size_t bytes) {
  // What has to wait must be small. What a profile job tells is longer, and is taken at once.
  if (bytes > kLongestQuestion && (dialogue->busy || (sources_.later && sources_.is_later(question.what))))
    throw Error("query: longer than any question there is");
  const auto link = dialogue->link.lock();
  if (!link) return;
  if (!dialogue->busy) return take(dialogue, link, question);
  if (dialogue->behind.size() >= kMostBehind) throw Error("query: too many questions at once; wait for the answers");
  dialogue->behind.push_back(question);
}

void QuestionDesk::check_allowance(uid_t uid) {
  const double now = clock_seconds();
  if (!rules_.trusts(uid) && (!seconds_.left(uid, 0, now) || !bytes_.left(uid, 0, now)))
    throw Error("uid " + std::to_string(uid) + " has asked for too much; ask again in a few seconds");
}

void QuestionDesk::charge(uid_t uid, double seconds, std::size_t bytes) {
  if (rules_.trusts(uid)) return;
  const double now = clock_seconds();
  seconds_.charge(uid, 0, now, seconds);
  bytes_.charge(uid, 0, now, static_cast<double>(bytes));
}

// A question costs what it costs, whatever it is: a user who has used up the daemon's time or room
// is asked to wait. A ping is nearly free and always answered.
void QuestionDesk::take(const DialoguePtr& dialogue, const wire::ConnectionPtr& link, const wire::Query& question) {
  const uid_t uid = link->peer().uid;
  if (question.what != "ping") check_allowance(uid);
  if (!rules_.trusts(uid) && (link->unread() > kMostUnread || rules_.unread_of(uid) > kMostUnreadOfUser))
    throw Error("uid " + std::to_string(uid) + " does not read its answers; read them first");
  if (!sources_.later || !sources_.is_later(question.what)) return answer_now(link, question);
  if (!question.arguments.is_object()) throw Error("query: arguments must be an object");
  dialogue->busy = true;
  queue_.push(uid, {dialogue, question});
  serve();
}

void QuestionDesk::answer_now(const wire::ConnectionPtr& link, const wire::Query& question) {
  const uid_t uid = link->peer().uid;
  const double before = thread_seconds();
  try {
    std::string frame = wire::encode(wire::to_frame(wire::Reply{sources_.at_once(question, link->peer())}));
    charge(uid, thread_seconds() - before, frame.size());
    link->send_encoded(std::move(frame));
  } catch (...) {
    charge(uid, thread_seconds() - before, 0);
    throw;
  }
}

// An answer that is refused here calls answered(), which must not call this again: a user may have thousands waiting.
void QuestionDesk::serve() {
  if (std::exchange(serving_, true)) return;
  while (under_way_ < kMostUnderWay) {
    const auto next = queue_.pop();
    if (!next) break;
    const auto link = next->dialogue->link.lock();
    if (!link) continue;
    const uid_t uid = link->peer().uid;
    ++under_way_;
    const auto done = [this, alive = std::weak_ptr(alive_), dialogue = std::weak_ptr(next->dialogue),
                       uid](const Answer& answer) {
      if (!alive.expired()) answered(dialogue.lock(), uid, answer);
    };
    try {
      check_allowance(uid);  // others of the user's questions may have been answered since
      sources_.later(next->question, link->peer(), done);
    } catch (const std::exception& error) {
      done({"", error.what(), 0});
    }
  }
  serving_ = false;
}

void QuestionDesk::answered(const DialoguePtr& dialogue, uid_t uid, const Answer& answer) {
  --under_way_;
  charge(uid, answer.seconds, answer.frame.size());
  if (const auto link = dialogue ? dialogue->link.lock() : nullptr) {
    dialogue->busy = false;
    if (answer.frame.empty()) {
      dialogue->behind.clear();
      rules_.refuse(link, answer.refused);
    } else {
      link->send_encoded(answer.frame);
      try {
        while (!dialogue->busy && !dialogue->behind.empty()) {
          const wire::Query next = std::move(dialogue->behind.front());
          dialogue->behind.pop_front();
          take(dialogue, link, next);
        }
      } catch (const std::exception& error) {
        dialogue->behind.clear();
        rules_.refuse(link, error.what());
      }
    }
  }
  serve();
}

}  // namespace espalier
