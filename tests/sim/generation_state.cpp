// The state with which a generation begins: that of the generation before it, or what is left of lost ones.
#include <algorithm>

#include "tests/sim/generation.hpp"

namespace espalier::sim {

// The old ranks' state must be of step `step`, both when it is taken and when it has arrived.
void Generation::load(std::size_t r, const wire::Load& load) {
  const std::int64_t step = load.step;
  if (assign_->source->recovery != (step == -1)) return fail(r, "load and assignment do not agree on a recovery");
  if (step == -1) return recover(r);
  ranks_[r].loading = true;
  ranks_[r].given = !load.giving;
  load_step_ = step;
  if (!source_stands()) return fail(r, "the old generation's state is not of step " + std::to_string(step));
  auto& timeline = training_.timeline;
  timeline.at(timeline.now() + training_.random.real(0.01, 0.5), ranks_[r].party, [self = shared_from_this(), r] {
    Rank& rank = self->ranks_[r];
    if (rank.gone || !rank.line) return;
    if (self->training_.random.chance(self->training_.trouble.misload)) return self->fail(r, "out of memory");
    rank.moved = true;
    if (rank.given) self->complete_load(r);
  });
}

bool Generation::source_stands() const {
  const Generation* old = training_.find(job_, assign_->source->generation);
  return old != nullptr && old->mark() == load_step_ && old->complete();
}

void Generation::complete_load(std::size_t r) {
  Rank& rank = ranks_[r];
  if (!rank.line) return;
  if (!source_stands()) return fail(r, "the old generation's state changed while it was read");
  step_ = load_step_;
  if (training_.mutant == Mutant::stale_state) --step_;
  if (training_.mutant == Mutant::skipped_step) ++step_;
  begun_ = mark_ = step_;
  rank.loaded = true;
  rank.line->send(wire::Loaded{});
}

// Whether each stage has a replica whose ranks have all left their state where `reader` can read it. `truly`: as if no
// vault had let any state go.
bool Generation::survives(const Generation& old, const std::string& reader, bool truly) const {
  const auto left = [&](const GpuId& gpu) {
    return std::any_of(old.ranks_.begin(), old.ranks_.end(), [&](const Rank& rank) {
      return rank.gpu == gpu && rank.loaded_state(old.number_) &&
             training_.events.keeps(rank.step_of, rank.party->node, reader) &&
             (truly || training_.events.kept(rank.step_of, rank.party->node, old.number_));
    });
  };
  for (const Stage& stage : old.assign_->plan.stages)
    if (std::none_of(stage.replicas.begin(), stage.replicas.end(), [&](const Replica& replica) {
          return std::all_of(replica.gpus.begin(), replica.gpus.end(), left);
        }))
      return false;
  return true;
}

// Whether the marks of some rank are left. Marks tell whether any state was changed.
bool Generation::speaks(const Generation& old, const std::string& reader, bool truly) const {
  return std::any_of(old.ranks_.begin(), old.ranks_.end(), [&](const Rank& rank) {
    return rank.assigned && training_.events.keeps(rank.step_of, rank.party->node, reader) &&
           (truly || training_.events.kept(rank.step_of, rank.party->node, old.number_));
  });
}

bool Generation::torn() {
  if (!torn_) torn_ = mark_ < 0 && training_.random.chance(0.1);
  return *torn_;
}

// `chain`: the lost generation, then earlier ones, the newest first.
Generation::Left Generation::newest_left(const std::vector<Link>& chain, const std::string& reader, bool truly) const {
  for (const auto& [old, until] : chain) {
    if (!old->assign_) return {};
    if (!old->torn() && old->step_ <= until && survives(*old, reader, truly))
      return {old, old == chain.front().generation};
    if (old->trained_ || old->torn() || !speaks(*old, reader, truly)) return {};
  }
  return {};
}

// Reports the recovery once: when a rank hears that the generation is committed, or when a later generation hears that
// it was.
void Generation::tell_recovery() {
  if (training_.events.superseded(job_, launcher_)) return;
  if (taken_ && !std::exchange(told_, true)) training_.events.recovered(job_, number_, taken_->step, taken_->from);
}

// Chooses one source for all ranks. As the vaults do, it first kills ranks of older generations that still live.
void Generation::choose_source(const std::string& reader) {
  const wire::Assign::Source& source = *assign_->source;
  std::vector<Link> told, all;
  Generation* const old = training_.find(job_, source.generation);
  if (old != nullptr) told.push_back({old, INT64_MAX});
  // The launcher keeps the state that the two generations before the lost one trained on.
  const int oldest = source.earlier.size() > 1 ? source.earlier[1].generation : 0;
  for (const auto& one : source.earlier)
    if (Generation* const earlier = training_.find(job_, one.generation); earlier != nullptr && !one.copies_only)
      told.push_back({earlier, one.step});
  for (const auto& other : training_.all()) {
    if (other->job_ != job_ || other->number_ >= number_ || other->era_ != era_) continue;
    const bool was_the_job =
        other->number_ == source.generation ||
        std::any_of(other->ranks_.begin(), other->ranks_.end(), [](const Rank& rank) { return rank.committed; });
    if (was_the_job && other->number_ <= source.generation && other->number_ >= oldest)
      all.insert(all.begin(), {other.get(), INT64_MAX});
    for (std::size_t r = 0; r < other->ranks_.size(); ++r)
      if (training_.network.reaches(other->ranks_[r].party->node, reader)) other->lose_rank(r, false);
  }
  if (old != nullptr) old->tell_recovery();
  taken_.emplace();
  for (std::size_t i = 1; i < all.size(); ++i) all[i].until = std::min(all[i - 1].until, all[i - 1].generation->begun_);
  const Left left = newest_left(told, reader, false), truth = newest_left(all, reader, true);
  const auto at = training_.checkpoints.find(job_);
  if (left.generation != nullptr) {
    taken_->step = left.generation->step_;
    taken_->from = left.lost ? "generation" : "earlier";
  } else {
    taken_->step = at == training_.checkpoints.end() ? 0 : at->second;
    taken_->from = at == training_.checkpoints.end() ? "start" : "checkpoint";
  }
  if (truth.generation != nullptr && truth.generation->step_ > taken_->step)
    training_.events.forgotten(job_, truth.generation->number_, truth.generation->step_);
}

void Generation::recover(std::size_t r) {
  ranks_[r].loading = true;
  auto& timeline = training_.timeline;
  timeline.at(timeline.now() + training_.random.real(0.05, 1), ranks_[r].party, [self = shared_from_this(), r] {
    Rank& rank = self->ranks_[r];
    if (rank.gone || !rank.line) return;
    if (self->training_.random.chance(self->training_.trouble.misload)) return self->lose_rank(r, false);
    if (!self->taken_) self->choose_source(rank.party->node);
    self->begun_ = self->step_ = self->mark_ = self->taken_->step;
    if (self->training_.mutant == Mutant::stale_recovery) self->step_ = std::max<std::int64_t>(0, self->step_ - 1);
    rank.loaded = true;
    rank.line->send(*self->taken_);
  });
}

}  // namespace espalier::sim
