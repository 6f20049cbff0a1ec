// How ranks of a generation end, and who hears of it.
#include <csignal>

#include "tests/sim/generation.hpp"

namespace espalier::sim {

// MPI or NCCL tells some of the other ranks. The rest wait for ever.
void Generation::others_notice(std::size_t lost) {
  auto& timeline = training_.timeline;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == lost || ranks_[r].gone || training_.random.chance(0.5)) continue;
    timeline.at(timeline.now() + training_.random.real(0, 2), ranks_[r].party, [self = shared_from_this(), r] {
      if (self->ranks_[r].gone || !self->running_) return;
      if (self->ranks_[r].line) self->ranks_[r].line->send(wire::Failed{"cannot reach another rank", true});
      self->lose_rank(r, false, 1);
    });
  }
}

void Generation::fail(std::size_t r, const std::string& why, bool memory) {
  if (ranks_[r].line) ranks_[r].line->send(wire::Failed{why, false, memory});
  lose_rank(r, false, 1);
}

void Generation::leave(std::size_t r) {
  auto& timeline = training_.timeline;
  timeline.at(timeline.now() + training_.random.real(0.01, 0.3), ranks_[r].party,
              [self = shared_from_this(), r] { self->lose_rank(r, false, 0); });
}

void Generation::lose_rank(std::size_t r, bool with_node, int code) {
  Rank& rank = ranks_[r];
  if (rank.gone) return;
  const bool trained = rank.committed && running_ && !finished_ && complete();
  rank.gone = true;
  rank.party->alive = false;
  training_.network.died(rank.party, with_node);
  rank.line.reset();
  if (code_ == 0) code_ = code;
  auto& random = training_.random;
  // The rank server reports the end of its rank, unless it has gone with the node.
  if (!with_node)
    tell_launcher(random.real(0.001, 0.05),
                  [self = shared_from_this(), r, code] { self->callbacks_.ended(static_cast<int>(r), code); });
  const bool last = all([](const Rank& one) { return one.gone; });
  if (last) {
    running_ = false;
    return tell_launcher(random.real(0.06, 0.2), [self = shared_from_this()] {
      self->callbacks_.all_ended(self->finished_ ? 0 : self->code_);
    });
  }
  if (code == 0) return;
  if (trained) others_notice(r);
  if (number_ == 0) end_all(random.real(0.01, 1.5));  // the first generation ends as a whole
}

void Generation::lose_server(JobId step_of, const std::string& node) {
  std::vector<int> lost;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].step_of == step_of && !ranks_[r].gone && (node.empty() || node == ranks_[r].party->node))
      lost.push_back(static_cast<int>(r));
  if (lost.empty()) return;
  tell_launcher(training_.random.real(0.001, 0.5),
                [self = shared_from_this(), lost] { self->callbacks_.lost(lost, "a rank server was lost"); });
  for (const int r : lost) lose_rank(static_cast<std::size_t>(r), false);
}

void Generation::tell_launcher(Seconds delay, std::function<void()> what) {
  if (!launcher_->alive) return;
  training_.timeline.at(training_.timeline.now() + delay, launcher_,
                        [self = shared_from_this(), what = std::move(what)] {
                          if (!self->abandoned_) what();
                        });
}

void Generation::end_all(Seconds delay) {
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    training_.timeline.at(training_.timeline.now() + delay, nullptr,
                          [self = shared_from_this(), r] { self->lose_rank(r, false, 143); });
}

void Generation::signal(int number) {
  if (!running_) return;
  auto& random = training_.random;
  if (number != SIGKILL) return end_all(random.real(0.01, 0.4));
  // The rank servers kill the ranks as soon as they hear of it, or notice that the launcher is gone.
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    training_.timeline.at(training_.timeline.now() + random.real(0, 1.2), nullptr,
                          [self = shared_from_this(), r] { self->lose_rank(r, false, 137); });
}

void Generation::notice(JobId extension) {
  for (Rank& rank : ranks_) {
    if (rank.step_of != extension || rank.gone) continue;
    if (extension == job_) rank.noticed = false;  // the anchor itself: the launcher hears the signal too
    else rank.noticed = true;
  }
}

}  // namespace espalier::sim
