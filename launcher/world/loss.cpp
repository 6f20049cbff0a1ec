#include "launcher/world/loss.hpp"

namespace espalier::launcher {

void LossEvidence::rank_ended(int code) {
  if (first_code_ == 0) first_code_ = code;
}

void LossEvidence::last_words(const std::string& text, const wire::Failed& words) {
  // The first failure is the cause; those of others follow from it.
  if (!words.peer && !own_failure_) {
    last_words_ = text;
    lacked_memory_ = words.memory;
  }
  own_failure_ = own_failure_ || !words.peer;
}

Loss LossEvidence::loss(const std::string& why) const {
  Loss loss;
  loss.why = why;
  if (exit_code_.value_or(0) != 0) loss.code = *exit_code_;
  else if (first_code_ != 0) loss.code = first_code_;
  loss.own = own_failure_;
  loss.memory = lacked_memory_;
  loss.of_server = server_gone_;
  for (const int rank : absent_) loss.absent.insert(gpus_.at(static_cast<std::size_t>(rank)));
  // Open MPI 5 aborts ranks that lose their connection to one that died. They are no cause where there is another.
  auto causes = died_;
  std::erase_if(causes, [this](const auto& one) { return aborted_.contains(one.first); });
  if (causes.empty()) causes = died_;
  for (const auto& [rank, words] : causes) loss.died.insert(gpus_.at(static_cast<std::size_t>(rank)));
  if (own_failure_) {
    loss.why = last_words_;
  } else if (!causes.empty()) {
    loss.why = causes.begin()->second;
    if (causes.size() > 1) loss.why += ", and " + std::to_string(causes.size() - 1) + " more";
  }
  return loss;
}

}  // namespace espalier::launcher
