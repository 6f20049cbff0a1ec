#include "tests/sim/faults.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "planner/core/error.hpp"
#include "tests/sim/invariants.hpp"

namespace espalier::sim {
namespace {

constexpr std::size_t kOfAnchored = 17;  // kinds of faults; the others are of movable jobs

}  // namespace

Faults::Faults(History& history) : history_(history) {
  Random& random = history_.random;
  // A history has few kinds of faults, so that some of its reconfigurations get far.
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (i < kOfAnchored || history.movable) weights_[i] = random.chance(0.3) ? random.real(0.1, 1) : 0;
  rate_ = random.chance(0.1) ? 0 : random.real(0.05, 0.5);
  in_change_ = random.chance(0.4) ? 0 : random.real(0.02, 0.25);
  Trouble& trouble = history_.training->trouble;
  trouble.slow = random.chance(0.3) ? random.real(0, 0.3) : 0;
  trouble.hang = random.chance(0.15) ? random.real(0, 0.2) : 0;
  trouble.die = random.chance(0.15) ? random.real(0, 0.15) : 0;
  trouble.misload = random.chance(0.15) ? random.real(0, 0.3) : 0;
  trouble.crowded = random.chance(0.1) ? random.real(0, 0.2) : 0;
  history_.training->in_place = random.chance(0.7);
  trouble.overfull = random.chance(0.2) ? random.real(0, 0.5) : 0;
  may_lose_ = trouble.crowded > 0 || trouble.overfull > 0;
  if (history_.training->by_checkpoint) trouble.unreadable = random.chance(0.3) ? random.real(0.5, 1) : 0;
  // With these troubles a shrink may take longer than the 15 s that Slurm gives.
  may_delay_ = trouble.slow > 0 || trouble.hang > 0 || trouble.die > 0 || trouble.misload > 0 || trouble.unreadable > 0;
  lost_answers_ = random.chance(0.2) ? random.real(0, 0.2) : 0;
}

bool Faults::loses_answer() { return history_.random.chance(lost_answers_); }

void Faults::begin(Seconds until) {
  if (rate_ > 0) next(until);
  if (history_.movable && history_.random.chance(0.7)) user_moves(until);
  if (history_.random.chance(0.5)) replans(until);
  history_.timeline.at(until, nullptr, [this] {
    history_.calm_ = true;
    history_.crash_in_ = 0;  // a crash that was to come does not
    lost_answers_ = 0;
    history_.training->trouble = {};
    history_.disk_full = false;
    history_.note([] { return "calm"; });
    history_.timeline.at(history_.timeline.now() + 10, nullptr, [this] { history_.slurm->leases_end = false; });
  });
}

void Faults::after_event() {
  if (history_.calm_) return;
  for (auto& [id, process] : history_.launchers) {
    if (process.changes == process.struck) continue;
    process.struck = process.changes;
    // A second base is withdrawn when a job begins to wait for its GPUs, which few jobs do by themselves.
    if (history_.mutant == Mutant::lost_withdrawal && process.seen == JobPhase::acquiring)
      history_.timeline.at(history_.timeline.now() + history_.random.real(0, 4), nullptr, [this] { plain_job(); });
    if (!history_.random.chance(in_change_)) continue;
    const Seconds soon = history_.random.chance(0.5) ? 0 : history_.random.real(0, 1);
    history_.timeline.at(history_.timeline.now() + soon, nullptr, [this] {
      if (!history_.calm_) strike();
    });
  }
}

void Faults::next(Seconds until) {
  const Seconds when = history_.timeline.now() - std::log(history_.random.real(1e-6, 1)) / rate_;
  if (when < until)
    history_.timeline.at(when, nullptr, [this, until] {
      strike();
      next(until);
    });
}

// The planner would try other micro-batches on a job's GPUs if the ranks of the model measured their steps. Its
// launcher is asked in the planner's name. No decision has such a number.
void Faults::replans(Seconds until) {
  const Seconds when = history_.timeline.now() + history_.random.real(0.5, 6);
  if (when >= until) return;
  history_.timeline.at(when, nullptr, [this, until] {
    replans(until);
    if (!history_.planner_.party->alive) return;
    history_.timeline.at(history_.timeline.now(), history_.planner_.party, [this] {
      for (const auto& [id, live] : history_.planner_.planner->jobs())
        if (history_.random.chance(0.7)) propose_in_place(live);
    });
  });
}

void Faults::propose_in_place(const LiveJob& live) {
  constexpr std::int64_t kNumber = 1'000'000;
  if (!live.link || !live.job.plan || live.job.phase != JobPhase::running) return;
  Decision decision;
  decision.id = kNumber + ++replanned_;
  decision.kind = DecisionKind::migrate;
  decision.job = live.job.id;
  decision.plan = *live.job.plan;
  decision.plan.micro_batches = 1 << history_.random.below(4);
  for (Stage& stage : decision.plan.stages) {
    const int replicas = static_cast<int>(stage.replicas.size());
    if (decision.plan.micro_batch() % replicas != 0) return;
    for (Replica& replica : stage.replicas) replica.share = decision.plan.micro_batch() / replicas;
  }
  if (decision.plan == *live.job.plan) return;
  history_.note([&] { return "job " + std::to_string(decision.job) + " is asked to go on with other micro-batches"; });
  live.link->send(wire::Propose{decision});
}

void Faults::strike() {
  ++strikes_;
  static constexpr std::array<Kind, 19> kinds{
      &Faults::plain_job,           &Faults::planner_dies,     &Faults::dies_in_between,
      &Faults::launcher_dies,       &Faults::keeper_dies,      &Faults::rank_dies,
      &Faults::rank_stands_still,   &Faults::link_breaks,      &Faults::node_fails,
      &Faults::node_is_cut,         &Faults::slurmctld_stands, &Faults::somebody_stands_still,
      &Faults::extension_cancelled, &Faults::job_cancelled,    &Faults::disk_fills,
      &Faults::user_asks,           &Faults::store_is_lost,    &Faults::base_cancelled,
      &Faults::launchers_node_fails};
  // Faults that end a job are rare, because nothing more can be seen of an ended job.
  static constexpr std::array<double, 19> share{4, 2, 1, 0.2, 0.4, 0.5, 0.3, 1.5, 0.2, 0.4,
                                                1, 1, 1, 0.1, 0.3, 1,   0.2, 0.2, 0.5};
  // Only the loss of two extensions in a row needs an older generation's state. That is too rare to wait for.
  if (history_.mutant == Mutant::forgetful_vault && history_.random.chance(0.5)) return keeper_dies();
  double sum = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) sum += weights_[i] * share[i];
  if (sum <= 0) return;
  double at = history_.random.real(0, sum);
  std::size_t i = 0;
  for (; i + 1 < kinds.size() && at >= weights_[i] * share[i]; ++i) at -= weights_[i] * share[i];
  if (weights_[i] > 0) (this->*kinds[i])();
}

// Counts a fault that costs a generation. A job goes on after one such fault. After another one, or if the next
// generation starts badly, the job may end.
void Faults::loss() {
  may_lose_ = true;
  ++losses_;
}

void Faults::disturbed(Seconds for_seconds) { last_ = std::max(last_, history_.timeline.now() + for_seconds); }

void Faults::plain_job() {
  SimJob job;
  job.gpus = 1 + history_.random.below(2);
  if (history_.random.chance(0.5))
    job.node =
        history_.slurm
            ->nodes()[static_cast<std::size_t>(history_.random.below(static_cast<int>(history_.slurm->nodes().size())))]
            .name;
  const JobId id = history_.slurm->submit(job);
  history_.note([&] { return "fault: plain job " + std::to_string(id) + " of " + std::to_string(job.gpus) + " GPUs"; });
}

void Faults::planner_dies() {
  const Seconds away = history_.random.chance(0.3) ? history_.random.real(3, 40) : history_.random.real(0.05, 3);
  disturbed(away);
  history_.kill_planner(away);
}

// A process dies in the middle of an event, right before it sends one of its next messages. The event's part before
// that message is done, the rest is not.
void Faults::dies_in_between() {
  disturbed(10);
  history_.crash_in_ = 1 + history_.random.below(8);
  history_.crash_party_ = history_.planner_.party;
  if (history_.random.chance(0.8)) return;
  for (auto& [id, process] : history_.launchers)
    if (process.launcher && history_.random.chance(0.6)) {
      history_.note([&] { return "fault: " + process.party->name + " will die in the middle of an event"; });
      history_.crash_party_ = process.party;
      may_lose_ = may_end_ = true;
      return;
    }
}

void Faults::launcher_dies() {
  may_lose_ = may_end_ = true;
  for (auto& [id, process] : history_.launchers)
    if (process.launcher && history_.random.chance(0.6)) {
      history_.note([&] { return "fault: " + process.party->name + " is killed"; });
      history_.end_launcher(process, false);
      return;
    }
}

void Faults::keeper_dies() {
  loss();
  for (const auto& [id, keeper] : history_.keepers->all())
    if (keeper->party->alive && history_.random.chance(0.6)) {
      history_.note([&] { return "fault: " + keeper->party->name + " is killed"; });
      history_.keepers->kill(keeper, false);
      return;
    }
  for (const HolderPtr& one : history_.holders->alive())
    if (history_.random.chance(0.6)) {
      history_.note([&] { return "fault: " + one->party->name + " is killed"; });
      may_end_ = may_end_ || !one->extension;  // a base ends with its batch script
      history_.holders->kill(one, false);
      return;
    }
}

void Faults::rank_dies() {
  loss();
  const auto ranks = history_.training->ranks_alive();
  if (ranks.empty()) return;
  const PartyPtr& rank = ranks[static_cast<std::size_t>(history_.random.below(static_cast<int>(ranks.size())))];
  history_.note([&] { return "fault: " + rank->name + " is killed"; });
  disturbed(0);
  history_.training->kill_rank(rank);
}

// The rank is stopped or swapped out. Its sockets stay open.
void Faults::rank_stands_still() {
  const auto ranks = history_.training->ranks_alive();
  if (ranks.empty()) return;
  const PartyPtr& rank = ranks[static_cast<std::size_t>(history_.random.below(static_cast<int>(ranks.size())))];
  const Seconds length = history_.random.chance(0.5) ? history_.random.real(0.1, 5) : history_.random.real(5, 30);
  history_.note([&] { return "fault: " + rank->name + " stands still for " + std::to_string(length) + " s"; });
  disturbed(length);
  may_delay_ = true;
  if (length > 2) loss();
  rank->stands_until = std::max(rank->stands_until, history_.timeline.now() + length);
}

// Mostly a connection to the planner breaks. Without a worker's connection the generation is lost, without a keeper's
// the extension.
void Faults::link_breaks() {
  const bool to_planner = history_.random.chance(0.7);
  const auto ends =
      history_.network.ends([&](const End& end) { return (end.party() == history_.planner_.party) == to_planner; });
  if (ends.empty()) return;
  const EndPtr& end = ends[static_cast<std::size_t>(history_.random.below(static_cast<int>(ends.size())))];
  history_.note(
      [&] { return "fault: a connection of " + end->party()->name + " and " + end->peer().address + " breaks"; });
  disturbed(10);
  if (!to_planner) loss();
  history_.network.snap(end);
}

void Faults::node_fails() {
  loss();
  const auto& nodes = history_.slurm->nodes();
  const SimNode& node = nodes[static_cast<std::size_t>(history_.random.below(static_cast<int>(nodes.size())))];
  if (node.up) node_dies(node.name);
}

// That of a movable job, which Slurm requeues.
void Faults::launchers_node_fails() {
  loss();
  for (const auto& [id, process] : history_.launchers)
    if (process.movable && process.launcher && history_.random.chance(0.7)) return node_dies(process.party->node);
}

void Faults::node_dies(const std::string& name) {
  history_.note([&] { return "fault: node " + name + " dies"; });
  disturbed(20);
  history_.slurm->fail_node(name);
  history_.training->kill_node(name);
  if (history_.movable) history_.network.cut(name);
  for (auto& [id, process] : history_.launchers)
    if (process.party->node == name) {
      may_end_ = may_end_ || !process.movable;
      history_.end_launcher(process, true);
    }
  for (const HolderPtr& one : history_.holders->alive())
    if (one->party->node == name) {
      may_end_ = may_end_ || !one->extension;
      history_.holders->kill(one, true);
    }
  for (const auto& [id, keeper] : history_.keepers->all())
    if (keeper->party->node == name) history_.keepers->kill(keeper, true);
  history_.timeline.at(history_.timeline.now() + history_.random.real(10, 20), nullptr, [this, name] {
    history_.note([&] { return "node " + name + " is back"; });
    history_.network.heal(name);
    history_.slurm->restore_node(name);
  });
}

void Faults::node_is_cut() {
  loss();
  const auto& nodes = history_.slurm->nodes();
  const std::string name = nodes[static_cast<std::size_t>(history_.random.below(static_cast<int>(nodes.size())))].name;
  const Seconds away = history_.random.chance(0.5) ? history_.random.real(0.1, 5) : history_.random.real(5, 25);
  history_.note([&] { return "fault: the network of node " + name + " is cut for " + std::to_string(away) + " s"; });
  disturbed(away + 12);
  for (const auto& [id, process] : history_.launchers)
    may_end_ = may_end_ || (process.launcher && process.party->node == name);
  history_.network.cut(name);
  // slurmctld takes it for down, and runs its jobs elsewhere. What is on the node goes on for a while.
  const bool down = history_.movable && away > 12 && !history_.slurm->is_down(name);
  for (const HolderPtr& one : history_.holders->alive())
    may_end_ = may_end_ || (down && one->party->node == name && !one->extension);
  if (down)
    history_.timeline.at(history_.timeline.now() + away - 10, nullptr,
                         [this, name] { history_.slurm->fail_node(name); });
  history_.timeline.at(history_.timeline.now() + away, nullptr, [this, name, down] {
    history_.note([&] { return "node " + name + " is reached again"; });
    history_.network.heal(name);
    if (down)
      history_.timeline.at(history_.timeline.now() + 42, nullptr, [this, name] { history_.slurm->restore_node(name); });
  });
}

void Faults::slurmctld_stands() {
  may_delay_ = true;
  const Seconds away = history_.random.chance(0.7) ? history_.random.real(0.1, 4) : history_.random.real(4, 25);
  history_.note([&] { return "fault: slurmctld stands still for " + std::to_string(away) + " s"; });
  disturbed(away);
  history_.slurm->back_at = history_.timeline.now() + away;
}

void Faults::somebody_stands_still() {
  std::vector<PartyPtr> parties{history_.planner_.party};
  for (const auto& [id, process] : history_.launchers)
    if (process.launcher) parties.push_back(process.party);
  for (const auto& [id, keeper] : history_.keepers->all())
    if (keeper->party->alive) parties.push_back(keeper->party);
  for (const HolderPtr& one : history_.holders->alive()) parties.push_back(one->party);
  const PartyPtr& party = parties[static_cast<std::size_t>(history_.random.below(static_cast<int>(parties.size())))];
  const Seconds length = history_.random.chance(0.7) ? history_.random.real(0.05, 3) : history_.random.real(3, 14);
  history_.note([&] { return "fault: " + party->name + " stands still for " + std::to_string(length) + " s"; });
  disturbed(length);
  may_delay_ = true;
  // A keeper gives up its launcher after 10 missed heartbeats, i.e. 10 s or more, whichever of the two stood still.
  if (party != history_.planner_.party) silence_ += length;
  if (silence_ > 8) loss();
  party->stands_until = std::max(party->stands_until, history_.timeline.now() + length);
}

void Faults::extension_cancelled() {
  loss();
  for (const auto& [id, job] : history_.slurm->jobs())
    if (job.kind == SimJob::Kind::extension && job.state != SlurmJobState::ended && history_.random.chance(0.6)) {
      history_.note([&] { return "fault: extension " + std::to_string(job.id) + " is cancelled by its user"; });
      history_.slurm->cancel(id);
      return;
    }
}

void Faults::job_cancelled() {
  may_lose_ = may_end_ = true;
  for (const auto& [id, job] : history_.slurm->jobs())
    if ((job.kind == SimJob::Kind::anchor || job.kind == SimJob::Kind::submitted) &&
        job.state == SlurmJobState::running && history_.random.chance(0.6)) {
      history_.note([&] { return "fault: job " + std::to_string(job.id) + " is cancelled"; });
      history_.slurm->cancel(id);
      return;
    }
}

// Users move bases in most histories, whatever else happens.
void Faults::user_moves(Seconds until) {
  const Seconds when = history_.timeline.now() + history_.random.real(2, 8);
  if (when >= until) return;
  history_.timeline.at(when, nullptr, [this, until] {
    if (history_.planner_.party->alive)
      history_.timeline.at(history_.timeline.now(), history_.planner_.party, [this] {
        for (const auto& [id, live] : history_.planner_.planner->jobs()) {
          if (!history_.random.chance(0.7)) continue;
          // As many other nodes, some of which may stay. A base that waits is to wait for some nodes, or for any again.
          MoveWish wish;
          const bool waits = live.job.anchor.empty();
          for (const SimNode& node : history_.slurm->nodes())
            if ((waits || wish.nodes.size() < live.job.anchor.size()) && !node.owner.empty() &&
                history_.random.chance(0.4))
              wish.nodes.push_back(node.name);
          try {
            const bool moves = history_.planner_.planner->migrate(id, wish) != 0;
            history_.note([job = id] { return "a user moves the base of job " + std::to_string(job); });
            if (!moves)
              for (const JobId base : history_.slurm->marked(id, SimJob::Kind::base))
                if (history_.slurm->find(base)->state == SlurmJobState::pending)
                  history_.invariants_->bases().wished(base, wish.nodes);
          } catch (const Error& error) {
            history_.note([&] { return std::string("a user is told: ") + error.what(); });
          }
          return;
        }
      });
    user_moves(until);
  });
}

void Faults::base_cancelled() {
  may_lose_ = may_end_ = true;
  for (const auto& [id, job] : history_.slurm->jobs())
    if (job.kind == SimJob::Kind::base && job.state != SlurmJobState::ended && history_.random.chance(0.6)) {
      history_.note([&] { return "fault: base " + std::to_string(job.id) + " is cancelled by its user"; });
      history_.slurm->cancel(id);
      return;
    }
}

void Faults::disk_fills() {
  may_delay_ = true;
  history_.note([] { return "fault: the disk is full"; });
  history_.disk_full = true;
  history_.timeline.at(history_.timeline.now() + history_.random.real(1, 10), nullptr,
                       [this] { history_.disk_full = false; });
}

void Faults::user_asks() {
  if (!history_.planner_.party->alive) return;
  const int what = history_.random.below(3);
  history_.timeline.at(history_.timeline.now(), history_.planner_.party, [this, what] {
    Planner& planner = *history_.planner_.planner;
    for (const auto& [id, live] : planner.jobs()) {
      history_.note([&, job = id] {
        return "fault: a user asks to " +
               std::string(what == 0   ? "hold"
                           : what == 1 ? "release"
                                       : "reclaim") +
               " job " + std::to_string(job);
      });
      try {
        if (what == 2) planner.reclaim(id);
        else planner.hold(id, what == 0);
      } catch (const Error&) {
        // "try again" is a valid answer.
      }
      return;
    }
  });
}

// An administrator moves the store away. An espalierd that finds a newer schema asks for that.
void Faults::store_is_lost() {
  if (!history_.planner_.party->alive) return;
  history_.note([] { return "fault: the planner's store is moved away"; });
  planner_dies();
  history_.store_ = std::make_unique<Store>(":memory:");
}

}  // namespace espalier::sim
