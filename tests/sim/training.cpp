#include "tests/sim/training.hpp"

#include <algorithm>
#include <csignal>

#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return "";
}

}  // namespace

std::shared_ptr<Generation> Training::start(const PartyPtr& launcher, JobId job, const launcher::WorldRequest& request,
                                            launcher::RanksCallbacks callbacks) {
  const std::string address = variable(request.environment, "ESPALIER_LAUNCHER");
  const auto colon = address.rfind(':');
  auto made = std::make_shared<Generation>(*this, launcher, job, request.generation, std::move(callbacks));
  for (const launcher::ServerId& server : launcher::servers_of(request)) {
    Generation::Rank rank;
    rank.party = std::make_shared<Party>();
    rank.party->name = "rank " + std::to_string(made->number()) + "." + std::to_string(made->ranks_.size()) +
                       " of job " + std::to_string(made->job());
    rank.party->node = server.node;
    rank.step_of = server.job;
    rank.hangs = random.chance(made->number() > 0 ? trouble.hang : trouble.hang / 5);
    made->ranks_.push_back(std::move(rank));
  }
  made->settles_after_ = random.below(4);
  all_.push_back(made);
  made->launch(address.substr(0, colon), static_cast<std::uint16_t>(std::stoul(address.substr(colon + 1))));
  return made;
}

Generation* Training::find(JobId job, int generation) const {
  for (auto one = all_.rbegin(); one != all_.rend(); ++one)  // a requeued job may count anew
    if ((*one)->job() == job && (*one)->number() == generation) return one->get();
  return nullptr;
}

bool Training::crowds(const Generation& one) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& other) {
    return other.get() != &one && other->job() == one.job() && other->running() && other->ranks().front().assigned;
  });
}

std::int64_t Training::left_of(JobId job, const std::string& reader, int told) const {
  std::vector<Generation::Link> chain;
  for (auto one = all_.rbegin(); one != all_.rend(); ++one)
    if ((*one)->job() == job && (chain.empty() || (*one)->era_ == chain.front().generation->era_) &&
        ((*one)->number_ == told ||
         std::any_of((*one)->ranks_.begin(), (*one)->ranks_.end(), [](const auto& rank) { return rank.committed; })))
      chain.push_back({one->get(), INT64_MAX});
  for (std::size_t i = 1; i < chain.size(); ++i)
    chain[i].until = std::min(chain[i - 1].until, chain[i - 1].generation->begun_);
  if (chain.empty()) return 0;
  const auto left = chain.front().generation->newest_left(chain, reader, false);
  return left.generation == nullptr ? 0 : left.generation->step_;
}

int Training::newest_committed(JobId step_of) const {
  int newest = 0;
  for (const auto& one : all_)
    for (const auto& rank : one->ranks())
      if (rank.committed && rank.step_of == step_of) newest = std::max(newest, one->number());
  return newest;
}

void Training::signal_steps(JobId job) {
  for (const auto& one : all_) one->notice(job);
}

void Training::kill_steps(JobId job, const std::string& node) {
  for (const auto& one : all_) one->lose_server(job, node);
}

void Training::kill_node(const std::string& node) {
  for (const auto& one : all_)
    for (std::size_t r = 0; r < one->ranks().size(); ++r)
      if (one->ranks()[r].party->node == node) one->lose_rank(r, true);
}

std::vector<PartyPtr> Training::ranks_alive() const {
  std::vector<PartyPtr> list;
  for (const auto& one : all_)
    for (const auto& rank : one->ranks())
      if (!rank.gone) list.push_back(rank.party);
  return list;
}

void Training::kill_rank(const PartyPtr& party) {
  for (const auto& one : all_)
    for (std::size_t r = 0; r < one->ranks().size(); ++r)
      if (one->ranks()[r].party == party) one->lose_rank(r, false);
}

void Generation::launch(const std::string& host, std::uint16_t port) {
  auto& random = training_.random;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Seconds delay = random.real(0.1, 0.6) + (random.chance(training_.trouble.slow) ? random.real(1, 12) : 0);
    if (number_ > 0 && random.chance(training_.trouble.die))
      training_.timeline.at(training_.timeline.now() + delay + random.real(0, 3), ranks_[r].party,
                            [self = shared_from_this(), r] {
                              if (!self->ranks_[r].loaded) self->lose_rank(r, false, 1);
                            });
    training_.timeline.at(
        training_.timeline.now() + delay, ranks_[r].party, [self = shared_from_this(), host, port, r] {
          const Rank& rank = self->ranks_[r];
          // The rank server on the launcher's node is there. srun starts the others.
          if (rank.step_of == self->job_ && rank.party->node == self->launcher_->node)
            return self->started(r, host, port);
          self->training_.events.start_step(rank.party, rank.step_of, [self, host, port, r](bool started) {
            if (started) return self->started(r, host, port);
            self->lose_server(self->ranks_[r].step_of, self->ranks_[r].party->node);
          });
        });
  }
}

void Generation::started(std::size_t r, const std::string& host, std::uint16_t port) {
  if (ranks_[r].gone || ranks_[r].started) return;
  ranks_[r].started = true;
  connect(r, host, port);
}

void Generation::connect(std::size_t r, const std::string& host, std::uint16_t port) {
  training_.network.connect(
      ranks_[r].party, host, port, wire::Service::worker,
      [self = shared_from_this(), r](const EndPtr& line) {
        self->ranks_[r].line = line;
        line->on_frame = [self, r](const wire::Frame& frame) { self->hear(r, frame); };
        line->on_closed = [self, r](const std::string&) {
          self->training_.timeline.at(self->training_.timeline.now() + 0.3, self->ranks_[r].party,
                                      [self, r] { self->lose_rank(r, false, 1); });
        };
        wire::Hello hello;
        hello.generation = self->number_;
        hello.rank = static_cast<int>(r);
        hello.node = self->ranks_[r].party->node;
        const wire::Description own = self->training_.description();
        hello.model = own.model;
        hello.total_steps = own.total_steps;
        hello.handoff = own.handoff;
        wire::Frame frame = wire::to_frame(hello);
        if (self->training_.in_place) frame.body["capabilities"] = {{"in_place", true}};
        line->send(frame);
        self->beat(r);
      },
      [self = shared_from_this(), r](const std::string&) { self->lose_rank(r, false, 1); });
}

void Generation::beat(std::size_t r) {
  training_.timeline.at(training_.timeline.now() + training_.heartbeat, ranks_[r].party,
                        [self = shared_from_this(), r] {
                          if (self->ranks_[r].gone || !self->ranks_[r].line) return;
                          self->ranks_[r].line->send(wire::Heartbeat{});
                          self->beat(r);
                        });
}

void Generation::hear(std::size_t r, const wire::Frame& frame) {
  Rank& rank = ranks_[r];
  auto& timeline = training_.timeline;
  if (rank.gone) return;
  if (frame.type == wire::Exit::type) {
    if (training_.mutant == Mutant::deaf_to_exit && rank.committed) return go_on(r);
    return leave(r);
  }
  if (frame.type == wire::Refused::type) return lose_rank(r, false, 1);
  if (!rank.assigned) {
    if (frame.type != wire::Assign::type) return fail(r, "expected assign, got " + frame.type);
    assign_ = wire::from_frame<wire::Assign>(frame);
    rank.assigned = true;
    rank.gpu = assign_->plan.ranks().at(r);
    training_.events.placed(job_, *rank.gpu, rank.step_of);
    if (!all([](const Rank& one) { return one.assigned; })) return;
    const bool anew = starts_anew();
    const bool reads = (number_ > 0 || anew) && !assign_->source;  // the newest checkpoint
    if (anew) {
      taken_.emplace();
      taken_->step = training_.checkpoints[job_];
      taken_->from = taken_->step == 0 ? "start" : "checkpoint";
    }
    if (reads) begun_ = step_ = mark_ = training_.checkpoints[job_];
    if (reads && training_.random.chance(training_.trouble.unreadable)) return lose_rank(r, false);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].hangs) continue;
      const Seconds reading = reads && training_.random.chance(0.2) ? training_.random.real(1, 16) : 0;
      timeline.at(timeline.now() + training_.random.real(0.1, 1) + reading, ranks_[i].party,
                  [self = shared_from_this(), i, reads] {
                    if (!self->ranks_[i].line) return;
                    self->ranks_[i].loaded = reads;
                    self->ranks_[i].line->send(wire::Ready{});
                  });
    }
    return;
  }
  if (!rank.committed && assign_->source && frame.type == wire::Load::type && !rank.loading)
    return load(r, wire::from_frame<wire::Load>(frame));
  if (!rank.committed && rank.loading && frame.type == wire::Given::type && !rank.given) {
    rank.given = true;
    return rank.moved ? complete_load(r) : void();
  }
  if (!rank.committed) {
    if (frame.type != wire::Commit::type || (assign_->source && !rank.loading))
      return fail(r, "expected load or commit, got " + frame.type);
    rank.committed = true;
    tell_recovery();
    if (step_ == training_.total_steps) return finish();
    begin_step();
    return;
  }
  train_frame(r, frame);
}

// Whether it is the first of a launcher that goes on with nothing of an earlier launcher but the checkpoint.
bool Generation::starts_anew() {
  int last = -1;
  bool first = true;
  for (const auto& other : training_.all()) {
    if (other.get() == this) break;
    if (other->job_ != job_) continue;
    last = std::max(last, other->era_);
    first = first && other->launcher_ != launcher_;
  }
  const bool anew = last >= 0 && first && !assign_->source;
  era_ = std::max(0, last + (anew ? 1 : 0));
  return anew;
}

void Generation::train_frame(std::size_t r, const wire::Frame& frame) {
  Rank& rank = ranks_[r];
  if (frame.type == wire::Checkpoint::type) {
    rank.checkpoints = true;
    return;
  }
  if (rank.standing && rank.answered) {
    if (frame.type != wire::Resume::type) return fail(r, "expected resume, got " + frame.type);
    if (training_.mutant == Mutant::stuck_boundary) return;
    rank.taken = wire::from_frame<wire::Resume>(frame).plan;
    if (rank.taken && !rank.in_place) return fail(r, "a plan to go on with, which nobody asked for");
    if (training_.mutant == Mutant::deaf_to_plan && r > 0) rank.taken.reset();
    return go_on(r);
  }
  if (frame.type == wire::Switch::type)
    rank.requests.push_back({wire::from_frame<wire::Switch>(frame).generation == number_, false});
  else if (frame.type == wire::Resume::type && wire::from_frame<wire::Resume>(frame).plan)
    return fail(r, "a plan before it stands");
  else if (frame.type == wire::Resume::type && !rank.requests.empty()) rank.requests.back().resumed = true;
  else if (frame.type == wire::Resume::type && rank.standing) rank.resumed = true;
  else return fail(r, "unexpected " + frame.type);
  if (rank.standing && !rank.answering && frame.type == wire::Switch::type && rank.requests.size() == 1) stand(r);
}

// The rank stands at the boundary. If another rank's `switch` has stopped all ranks, this rank waits for its own.
void Generation::stand(std::size_t r) {
  Rank& rank = ranks_[r];
  rank.standing = true;
  if (rank.requests.empty()) return;
  rank.resumed = rank.requests.front().resumed;
  rank.in_place = rank.requests.front().in_place;
  rank.requests.pop_front();
  rank.answering = true;
  auto& timeline = training_.timeline;
  const Seconds saving =
      training_.by_checkpoint && !rank.in_place && training_.random.chance(0.2) ? training_.random.real(0, 16) : 0;
  // Either all ranks give state that leaves its node, or there is no such state.
  const bool gives = !training_.by_checkpoint && !rank.in_place && step_ % 2 == 0;
  const Seconds stands = training_.random.real(0, 0.05), giving = gives ? training_.random.real(0, 0.5) : saving;
  if (gives)
    timeline.at(timeline.now() + stands, rank.party, [self = shared_from_this(), r] {
      if (const Rank& one = self->ranks_[r]; !one.gone && one.line) one.line->send(wire::Standing{self->step_});
    });
  timeline.at(timeline.now() + stands + giving, rank.party, [self = shared_from_this(), r] {
    Rank& one = self->ranks_[r];
    if (one.gone || !one.line) return;
    one.answering = false;
    one.answered = true;
    if (self->training_.by_checkpoint && !one.in_place) self->training_.checkpoints[self->job_] = self->step_;
    const bool cannot = one.in_place && self->training_.random.chance(0.1);
    one.line->send(wire::Switched{self->step_, cannot ? "no such schedule" : ""});
    if (one.resumed) self->go_on(r);
  });
}

void Generation::go_on(std::size_t r) {
  Rank& rank = ranks_[r];
  rank.standing = rank.answered = rank.resumed = false;
  if (all([](const Rank& one) { return !one.standing || one.gone; }) && !take_plan())
    return fail(r, "ranks go on with different plans");
  begin_step();
}

// Once all ranks go on: false where they do so with different plans.
bool Generation::take_plan() {
  const std::optional<Plan> plan = ranks_.front().taken;
  const bool same = all([&](const Rank& one) { return one.gone || one.taken == plan; });
  for (Rank& rank : ranks_) rank.taken.reset();
  if (!plan || !same) return same;
  if (!keeps_places(assign_->plan, *plan)) return false;
  assign_->plan = *plan;
  fresh_plan_ = true;
  return true;
}

bool Generation::complete() const {
  return all([](const Rank& rank) { return !rank.gone; });
}

bool Generation::training() const {
  return running_ && !finished_ && all([](const Rank& rank) { return rank.committed && !rank.standing && !rank.gone; });
}

void Generation::begin_step() {
  if (!training() || stepping_) return;
  stepping_ = true;
  mark_ = -1;
  auto& timeline = training_.timeline;
  const Seconds length = training_.step_seconds * (0.3 + 0.7 / static_cast<double>(ranks_.size()));
  timeline.at(timeline.now() + length * training_.random.real(0.9, 1.1), nullptr,
              [self = shared_from_this()] { self->end_step(); });
}

bool Generation::reaches_all() const {
  return all(
      [this](const Rank& rank) { return training_.network.reaches(rank.party->node, ranks_.front().party->node); });
}

void Generation::end_step() {
  stepping_ = false;
  if (!training()) return;  // a rank was lost: the others wait in a collective for ever
  if (training_.needs_network && !reaches_all()) {
    stepping_ = true;
    training_.timeline.at(training_.timeline.now() + 0.2, nullptr, [self = shared_from_this()] { self->end_step(); });
    return;
  }
  for (const Rank& rank : ranks_)
    if (rank.party->stands_until > training_.timeline.now()) {
      stepping_ = true;
      training_.timeline.at(rank.party->stands_until, nullptr, [self = shared_from_this()] { self->end_step(); });
      return;
    }
  if (training_.random.chance(training_.trouble.crowded) && training_.crowds(*this))
    return fail(0, "out of memory", true);
  if (std::exchange(fresh_plan_, false) && training_.random.chance(training_.trouble.overfull))
    return fail(0, "out of memory", true);
  mark_ = ++step_;
  trained_ = true;
  const bool settled = settles_after_-- <= 0;
  const bool counts = !training_.events.superseded(job_, launcher_);
  if (counts) training_.events.completed(job_, number_, step_);
  bool asked = step_ % Training::kCheckpointSteps == 0;
  for (Rank& rank : ranks_) asked = std::exchange(rank.checkpoints, false) || asked;
  if (asked && counts) training_.checkpoints[job_] = step_;
  wire::Step report;
  report.step = step_;
  report.settled = settled;
  report.seconds = training_.step_seconds * (0.3 + 0.7 / static_cast<double>(ranks_.size()));
  if (ranks_[0].line) ranks_[0].line->send(report);
  bool agreed = false;
  for (Rank& rank : ranks_) {
    if (std::exchange(rank.noticed, false) && rank.step_of != job_ && rank.line)
      rank.line->send(wire::Notice{rank.step_of});
    agreed = agreed || !rank.requests.empty();
  }
  if (step_ == training_.total_steps) return finish();
  if (!agreed) return begin_step();
  for (Rank& rank : ranks_) rank.standing = true;
  for (std::size_t r = 0; r < ranks_.size(); ++r) stand(r);
}

void Generation::finish() {
  if (finished_ || !all([](const Rank& rank) { return rank.committed && !rank.gone; })) return;
  finished_ = true;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].line) ranks_[r].line->send(wire::Done{step_});
    leave(r);
  }
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
