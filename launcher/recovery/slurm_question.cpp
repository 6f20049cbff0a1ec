#include "launcher/recovery/slurm_question.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {

void SlurmQuestion::put(const std::set<JobId>& jobs, const Limits& limits, std::function<void()> late, Said said) {
  said_ = std::move(said);
  late_ = loop_.after(limits.late, std::move(late));
  most_ = loop_.after(limits.most, [this] { end({.closing = {}, .withdrawn = {}, .away = "it does not answer"}); });
  if (std::includes(asked_.begin(), asked_.end(), jobs.begin(), jobs.end())) return;
  asked_ = jobs;
  ask_(jobs, [this, question = ++question_](const SlurmAnswer& answer) { answered(question, answer); });
}

void SlurmQuestion::answered(int question, const SlurmAnswer& answer) {
  if (question != question_) return;
  asked_.clear();
  end(answer);
}

void SlurmQuestion::end(const SlurmAnswer& answer) {
  late_.reset();
  most_.reset();
  if (const Said said = std::exchange(said_, nullptr)) said(answer);
}

}  // namespace espalier::launcher
