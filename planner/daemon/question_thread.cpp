#include "planner/daemon/question_thread.hpp"

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"

namespace espalier {
namespace {

// The loop's answers to heartbeats and pings come first when the cores are taken.
constexpr int kNice = 5;
constexpr std::size_t kMostWaiting = 64;  // QuestionDesk gives far fewer at once

}  // namespace

QuestionThread::QuestionThread(wire::Loop& loop, Planner& planner, const Answers& answers, const std::string& store)
    : planner_(planner),
      answers_(answers),
      reader_(std::make_shared<ReadAnswers>(store)),
      thread_(loop, kMostWaiting, wire::SideThread::End::wait, kNice) {}

void QuestionThread::ask(const wire::Query& query, const wire::Peer& peer, Done done) {
  const double before = thread_seconds();
  const auto view = planner_.view();
  const double spent = thread_seconds() - before;
  const auto work = [reader = reader_, view, query, viewer = answers_.viewer_of(peer), spent,
                     done]() -> std::function<void()> {
    Answer answer;
    const double begin = thread_seconds();
    try {
      answer.frame = wire::encode_text(wire::Reply::type,
                                       "{\"body\":" + reader->answer(query.what, query.arguments, *view, viewer) + "}");
    } catch (const std::exception& error) {
      answer.refused = error.what();
    }
    answer.seconds = spent + thread_seconds() - begin;
    return [done, answer = std::move(answer)] { done(answer); };
  };
  if (!thread_.post(work)) done({"", "too many questions wait; ask again", spent});
}

}  // namespace espalier
