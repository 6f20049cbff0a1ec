#include "tests/sim/generation.hpp"

#include <algorithm>

namespace espalier::sim {

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

}  // namespace espalier::sim
