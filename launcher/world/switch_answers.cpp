#include "launcher/world/switch_answers.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::launcher {

void SwitchAnswers::ask(const std::vector<int>& ranks) {
  boundary_ = 0;
  given_up_ = false;
  for (const int rank : ranks) {
    Answer& answer = answers_[rank];
    answer.stands = answer.switched = false;
    ++answer.unanswered;
  }
}

SwitchAnswers::Answer& SwitchAnswers::answer_of(int rank) {
  const auto at = answers_.find(rank);
  if (at == answers_.end() || at->second.unanswered == 0)
    throw Error("worker: stands at a boundary that nobody asked for");
  return at->second;
}

bool SwitchAnswers::stands(int rank, const wire::Standing& standing) {
  Answer& answer = answer_of(rank);
  if (given_up_ || answer.unanswered > 1 || answer.stands) return false;  // for a switch that was given up
  take_boundary(standing.step);
  answer.stands = true;
  return all(&Answer::stands);
}

bool SwitchAnswers::switched(int rank, const wire::Switched& switched) {
  Answer& answer = answer_of(rank);
  if (--answer.unanswered > 0 || given_up_) return false;  // the answer to a switch that was given up
  take_boundary(switched.step);
  answer.problem = switched.problem;
  answer.switched = true;
  return all(&Answer::switched);
}

void SwitchAnswers::take_boundary(std::int64_t step) {
  if (boundary_ != 0 && step != boundary_)
    throw Error("worker: two boundaries, " + std::to_string(boundary_) + " and " + std::to_string(step));
  boundary_ = step;
}

bool SwitchAnswers::all(bool Answer::*flag) const {
  return static_cast<int>(answers_.size()) == ranks_ &&
         std::all_of(answers_.begin(), answers_.end(), [flag](const auto& one) { return one.second.*flag; });
}

std::string SwitchAnswers::problem() const {
  for (const auto& [rank, answer] : answers_)
    if (!answer.problem.empty()) return answer.problem;
  return "";
}

}  // namespace espalier::launcher
