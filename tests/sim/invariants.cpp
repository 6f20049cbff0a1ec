#include "tests/sim/invariants.hpp"

#include <algorithm>
#include <csignal>

#include "launcher/job/launcher.hpp"
#include "tests/sim/faults.hpp"
#include "tests/sim/generation.hpp"

namespace espalier::sim {
namespace {

constexpr Seconds kLook = 0.5;
// Timers of the product and of the model may be late by this much.
constexpr Seconds kSlack = 3;
// A second base is withdrawn after 10 s and the backfill scheduler's period.
constexpr Seconds kSecondBase = 10 + SlurmModel::kBackfill;

std::string name(JobId job) { return "job " + std::to_string(job); }

}  // namespace

Invariants::Invariants(History& history)
    : history_(history),
      bases_(history, [this](const std::string& key, bool bad, Seconds bound, const std::string& what) {
        holds(key, bad, bound, what);
      }) {
  history_.timeline.at(kLook, nullptr, [this] { each_half_second(); });
}

// ---- after every event

void Invariants::after_event() {
  one_generation_trains();
  floor_is_kept();
  look_at_recoveries();
}

// GPUs on which a next generation of the job may be started, by what the model knows.
int Invariants::usable_gpus(JobId job) const {
  const auto at = history_.launchers.find(job);
  if (at == history_.launchers.end() || !at->second.launcher) return 0;
  int gpus = 0;
  for (const auto& [id, held] : history_.slurm->jobs()) {
    const bool extension = held.kind == SimJob::Kind::extension;
    if ((id != job && held.anchor != job) || held.state != SlurmJobState::running || held.preempted) continue;
    if (extension && !at->second.launcher->owns(id)) continue;
    for (const Holding& one : held.holdings)
      if (!history_.slurm->is_down(one.node) && history_.network.reaches(one.node, at->second.party->node))
        gpus += static_cast<int>(one.gpus.size());
  }
  return gpus;
}

// A recovery may begin and end the job within one event.
void Invariants::look_at_recoveries() {
  for (const auto& [id, process] : history_.launchers) {
    const bool ends = process.seen == JobPhase::ending && !fewest_.contains(id);
    if (process.floor <= 1 || !process.launcher || (process.seen != JobPhase::recovering && !ends)) continue;
    const int gpus = usable_gpus(id);
    const auto [fewest, first] = fewest_.try_emplace(id, gpus);
    if (!first) fewest->second = std::min(fewest->second, gpus);
  }
}

void Invariants::floor_is_kept() {
  for (const auto& generation : history_.training->all()) {
    const auto at = history_.launchers.find(generation->job());
    if (at == history_.launchers.end() || !generation->training()) continue;
    const auto gpus = static_cast<int>(generation->ranks().size());
    if (gpus < at->second.floor)
      history_.violate(name(generation->job()) + ": trains on " + std::to_string(gpus) + " GPUs, and its MIN is " +
                       std::to_string(at->second.floor));
  }
}

void Invariants::one_generation_trains() {
  std::map<JobId, int> training;
  for (const auto& generation : history_.training->all())
    if (generation->training() && !history_.superseded(generation->job(), generation->launcher()) &&
        ++training[generation->job()] > 1)
      history_.violate(name(generation->job()) + ": two generations train at once");
}

void Invariants::completed(JobId job, int generation, std::int64_t step) {
  Steps& steps = steps_[job];
  if (step <= steps.last)
    history_.violate(name(job) + ": generation " + std::to_string(generation) + " does step " + std::to_string(step) +
                     " again, which generation " + std::to_string(steps.generation) + " had done");
  if (step > steps.last + 1)
    history_.violate(name(job) + ": generation " + std::to_string(generation) + " does step " + std::to_string(step) +
                     " after step " + std::to_string(steps.last));
  if (generation < steps.generation)
    history_.violate(name(job) + ": generation " + std::to_string(generation) + " trains after generation " +
                     std::to_string(steps.generation));
  if (steps.first.emplace(generation, step).second)
    history_.note([&] {
      return name(job) + ": generation " + std::to_string(generation) + " trains from step " + std::to_string(step);
    });
  steps.last = step;
  steps.generation = generation;
  steps.recoveries = 0;
  fewest_.erase(job);
  since_.erase(name(job) + " steps");
}

// If state of a generation is taken from memory, no step that was done is lost. A checkpoint belongs to a step that was
// done.
void Invariants::recovered(JobId job, int generation, std::int64_t step, const std::string& from) {
  Steps& steps = steps_[job];
  history_.note([&] {
    return name(job) + ": generation " + std::to_string(generation) + " goes on from " + from + " after step " +
           std::to_string(step);
  });
  const auto left = left_.find(job);
  const bool next = left != left_.end();  // the first recovery of a requeued job's launcher
  const bool told = !next || left->second.told;
  if (next) {
    if (step < left->second.step && history_.faults_->strikes() == left->second.strikes && from != "generation" &&
        from != "earlier")
      history_.violate(name(job) + ": its keepers held the state after step " + std::to_string(left->second.step) +
                       ", and its next launcher goes on after step " + std::to_string(step));
    left_.erase(left);
  }
  // The launcher before may have been cut off, and its ranks may have trained on until the next one stopped them.
  const bool may_be_ahead = next && from != "checkpoint";
  // Or its keepers did not reach it to hear of a generation.
  const bool may_be_behind = next && !told;
  if ((step > steps.last && !may_be_ahead) ||
      ((from == "generation" || from == "earlier") &&
       ((step < steps.last && !may_be_behind) || (step > steps.last && !may_be_ahead))))
    history_.violate(name(job) + ": goes on with the state of its lost generation after step " + std::to_string(step) +
                     ", and step " + std::to_string(steps.last) + " was done");
  steps.last = step;
  steps.generation = generation;
  ++steps.recoveries;
}

// Whether the job may leave an extension too late. Slurm gives an extension some seconds to leave. Faults that delay
// the next generation may use them up.
bool Invariants::leaves_late(JobId job) const {
  for (const auto& [id, extension] : history_.slurm->jobs())
    if (extension.anchor == job && (history_.faults_->may_delay() || history_.training->by_checkpoint) &&
        (extension.preempted || history_.timeline.now() - extension.started >= extension.limit))
      return true;
  return false;
}

void Invariants::requeued(JobId job, const std::string& node, Seconds lost) {
  // Without a base whose keepers know what was left there is nothing to go on with.
  const auto alive = history_.holders->alive();
  const bool held = std::any_of(alive.begin(), alive.end(), [&](const HolderPtr& one) {
    const SimJob* const base = history_.slurm->find(one->job);
    return one->submitted == job && one->told && base != nullptr && base->state == SlurmJobState::running;
  });
  const bool ending = std::any_of(alive.begin(), alive.end(), [&](const HolderPtr& one) {
    const SimJob* const base = history_.slurm->find(one->job);
    return one->submitted == job && base != nullptr && base->state != SlurmJobState::running;
  });
  int newest = 0, told = -1;
  for (const auto& generation : history_.training->all())
    for (const auto& rank : generation->ranks())
      if (generation->job() == job && rank.committed) newest = std::max(newest, generation->number());
  for (const HolderPtr& one : alive)
    if (one->submitted == job && one->told) told = std::max(told, one->told_generation);
  // The generation that keepers were told of last may have lost all its ranks before one of them heard that it is
  // committed. Nobody can say then whether it has trained, and the state before it is not taken.
  left_[job] = {held && !ending && !history_.network.any_cut() ? history_.training->left_of(job, node, told) : 0,
                history_.faults_->strikes()};
  left_[job].told = told >= newest;
  // Keepers hold a node for so long, and need some seconds to find the next launcher.
  const bool late = lost > 0 && history_.timeline.now() - lost > 60 * history_.config.adoption_minutes - 10;
  if (told < newest || late) left_[job].step = 0;
}

// Preemption, the end of a lease and the planner's troubles are no reason to lose a generation.
void Invariants::generation_lost(JobId job) {
  // A generation may have failed to start from its checkpoint.
  if (history_.training->by_checkpoint && history_.faults_->may_delay()) return;
  if (ended_since_ >= 0 || history_.faults_->may_lose() || leaves_late(job)) return;
  history_.violate(name(job) + ": its generation was lost, though nothing happened that may cost one");
}

// A single loss is no reason for a job to end.
void Invariants::job_ended(JobId job) {
  const std::int64_t last = steps_.contains(job) ? steps_.at(job).last : 0;
  const Faults& faults = *history_.faults_;
  if (last >= history_.training->total_steps || ended_since_ >= 0 || faults.may_end_jobs() || leaves_late(job)) return;
  if (history_.training->by_checkpoint && faults.may_delay() && failed_starts(job) >= 4) return;
  // The launcher gives up a step that failed three times: for lack of memory beside a new generation, for example.
  if ((faults.may_delay() || faults.may_lose()) && steps_.contains(job) && steps_.at(job).recoveries >= 2) return;
  // After a loss a job may be left with fewer GPUs than its MIN.
  if (const auto at = history_.launchers.find(job); faults.may_lose() && at != history_.launchers.end() &&
                                                    fewest_.contains(job) && fewest_.at(job) < at->second.floor)
    return;
  // A job without a completed step has nothing to go on from. srun waits for slurmctld for some seconds only.
  if (last == 0 && (faults.may_delay() || faults.may_lose())) return;
  history_.violate(name(job) + ": ended after step " + std::to_string(last) + " of " +
                   std::to_string(history_.training->total_steps) + ", though nothing happened that may end a job");
}

// The number of generations since the last one that did a step.
int Invariants::failed_starts(JobId job) const {
  int last = 0;
  for (const auto& generation : history_.training->all())
    if (generation->job() == job) last = std::max(last, generation->number());
  return steps_.contains(job) ? last - steps_.at(job).generation : last + 1;
}

void Invariants::placed(JobId job, const GpuId& gpu, JobId step_of) {
  const std::string place = gpu.node + "/" + std::to_string(gpu.index);
  const SimJob* holder = history_.slurm->find(step_of);
  if (holder == nullptr || (step_of != job && holder->anchor != job))
    return history_.violate(name(job) + ": a rank on " + place + " runs in a step of job " + std::to_string(step_of));
  // Slurm may have ended the job on a node that is cut off, and its processes there go on for a while.
  if (history_.slurm->owner(gpu) != step_of && !(history_.movable && holder->state != SlurmJobState::running))
    return history_.violate(name(job) + ": a rank takes GPU " + place + ", which Slurm gave to job " +
                            std::to_string(history_.slurm->owner(gpu)));
  for (const auto& other : history_.training->all())
    for (const auto& rank : other->ranks())
      if (!rank.gone && rank.gpu == gpu && other->job() != job)
        history_.violate("GPU " + place + " is in " + name(job) + " and in " + name(other->job()));
}

// ---- conditions with a time limit

void Invariants::holds(const std::string& key, bool bad, Seconds bound, const std::string& what) {
  if (!bad) {
    since_.erase(key);
    return;
  }
  const bool disturbed = history_.timeline.now() < history_.faults_->last();
  Seconds& so_far = since_[key];
  if (!disturbed) so_far += kLook;
  if (so_far > bound) history_.violate(what + " for more than " + std::to_string(std::lround(bound)) + " s");
}

void Invariants::each_half_second() {
  jobs_progress();
  phases_end();
  extensions_are_owned();
  bases_.look();
  decisions_end();
  end_of_history();
  history_.timeline.at(history_.timeline.now() + kLook, nullptr, [this] { each_half_second(); });
}

Seconds Invariants::longest_switch() const {
  return std::max<Seconds>(history_.config.switch_seconds, 6 + 3.3 * history_.training->step_seconds);
}

// A job that has begun and has a launcher does steps, except during a switch or a recovery.
void Invariants::jobs_progress() {
  const Seconds reading = history_.training->by_checkpoint ? history_.config.hang_seconds : 0;
  const Seconds at_a_boundary = longest_switch();
  const Seconds longest = history_.config.hang_seconds + 2.0 * at_a_boundary + reading + kSlack;
  for (const auto& [id, process] : history_.launchers) {
    const bool has_begun = steps_.contains(id);
    const bool recovers =
        process.launcher && (process.launcher->phase() == JobPhase::recovering ||
                             (process.restarts > 0 && process.launcher->phase() == JobPhase::launching));
    holds(name(id) + " steps", process.launcher && has_begun && !recovers, longest, name(id) + ": makes no step");
  }
}

void Invariants::phases_end() {
  const wire::Config& config = history_.config;
  const Seconds at_a_boundary = longest_switch();
  for (const auto& [id, process] : history_.launchers) {
    // The launcher may have left a phase and be in it again.
    const bool changed = std::exchange(changes_[id], process.changes) != process.changes;
    for (const JobPhase phase :
         {JobPhase::acquiring, JobPhase::starting, JobPhase::ready, JobPhase::switching, JobPhase::committed,
          JobPhase::saving, JobPhase::restarting, JobPhase::replanning, JobPhase::recovering, JobPhase::ending}) {
      Seconds bound = 10 + kSlack;
      if (phase == JobPhase::launching) bound = config.protocol_seconds + config.hang_seconds + kSlack;
      if (phase == JobPhase::acquiring) bound = config.acquire_seconds + kSlack;
      if (phase == JobPhase::acquiring && process.movable) bound = kSecondBase + kSlack;
      if (phase == JobPhase::starting) bound = 1.5 * config.start_seconds + kSlack;  // with early_seconds()
      if (phase == JobPhase::ready || phase == JobPhase::switching || phase == JobPhase::replanning)
        bound = at_a_boundary + kSlack;
      if (phase == JobPhase::saving || phase == JobPhase::restarting)
        bound = std::max<Seconds>(at_a_boundary, config.hang_seconds) + kSlack;
      if (phase == JobPhase::recovering) bound = 5.0 * (config.start_seconds + 2.0 * config.hang_seconds);
      const bool in_it = !changed && process.launcher && process.launcher->phase() == phase;
      holds(name(id) + " is " + to_string(phase), in_it, bound, name(id) + ": stays in state " + to_string(phase));
    }
  }
}

void Invariants::extensions_are_owned() {
  for (const auto& [id, job] : history_.slurm->jobs()) {
    if (job.kind != SimJob::Kind::extension || job.state == SlurmJobState::ended) continue;
    if (const SimJob* of = history_.slurm->find(job.anchor); of != nullptr && of->kind == SimJob::Kind::submitted)
      continue;  // held for the next launcher: BaseInvariants
    const std::string what = "extension " + std::to_string(id) + " of " + name(job.anchor);
    const auto at = history_.launchers.find(job.anchor);
    const bool orphan = at == history_.launchers.end() || !at->second.launcher;
    const bool planner = history_.planner_.party->alive;
    const bool runs = job.state == SlurmJobState::running;
    // A keeper hears at once that its launcher is gone, or looks for it for 5 s. Then it fences for 3 s at most. If the
    // keeper cannot hear, because its node is cut or the launcher's node is dead, the surroundings count as disturbed
    // for longer.
    holds(what + " orphan", orphan && runs, 5 + 3 + kSlack, what + ": has no launcher and runs");
    // An extension that was never granted has no keeper. The planner ends it: after 10 s, seen every 4 s, again after
    // 10 s.
    holds(what + " waits orphan", orphan && !runs && planner, 10 + 4 + 10 + kSlack,
          what + ": has no launcher and waits");
    const bool unclaimed =
        !orphan && at->second.launcher->phase() == JobPhase::running && !at->second.launcher->owns(id);
    holds(what + " unclaimed", unclaimed && planner, 30 + 4 + 10 + kSlack, what + ": its launcher does not know it");
  }
}

void Invariants::decisions_end() {
  if (!history_.planner_.party->alive) return;
  const Planner& planner = *history_.planner_.planner;
  for (const auto& [id, live] : planner.jobs()) {
    const JobPhase phase = live.job.phase;
    const bool at_a_boundary = live.link && phase != JobPhase::acquiring && phase != JobPhase::starting &&
                               phase != JobPhase::running && phase != JobPhase::committed;
    const double limit = planner.settings().outcome_seconds + 4 + kSlack;
    holds("decision " + name(id), live.open && !at_a_boundary, limit, name(id) + ": a decision is open");
    holds("slow decision " + name(id), live.open.has_value(), limit + planner.settings().boundary_seconds,
          name(id) + ": a decision is open");
  }
}

// ---- the end of a history: all must agree, then the jobs end and nothing may be left

std::string Invariants::disagreement() {
  const PlannerProcess& planner = history_.planner_;
  if (!planner.party->alive) return "there is no planner";
  std::set<JobId> extensions;
  for (const auto& [id, job] : history_.slurm->jobs())
    if (job.kind == SimJob::Kind::extension && job.state != SlurmJobState::ended) extensions.insert(id);
  std::set<JobId> claimed;
  for (const auto& [id, process] : history_.launchers) {
    const auto live = planner.planner->jobs().find(id);
    const bool known = live != planner.planner->jobs().end();
    if (!process.launcher) {
      if (known) return name(id) + " is known to the planner, and over";
      continue;
    }
    if (!known || !live->second.link) return name(id) + " is not known to the planner";
    const ElasticJob job = process.launcher->state();
    const ElasticJob& told = live->second.job;
    if (job.phase != JobPhase::running && job.phase != JobPhase::launching) return name(id) + " is being changed";
    if (live->second.open) return name(id) + ": a decision is open";
    if (std::string why = bases_.differ(id); !why.empty()) return why;
    if (told.phase != job.phase || told.generation != job.generation || told.extensions != job.extensions ||
        told.plan != job.plan)
      return name(id) + ": the planner's record is not the launcher's state";
    std::set<JobId> used;
    if (job.plan)
      for (const GpuId& gpu : job.plan->ranks()) used.insert(history_.slurm->owner(gpu));
    for (const Holding& held : job.extensions) {
      claimed.insert(held.job);
      if (!used.contains(held.job)) return name(id) + ": holds extension " + std::to_string(held.job) + " for nothing";
    }
    for (const Holding& own : job.anchor) used.erase(own.job);
    for (const JobId owner : used)
      if (owner != id && !extensions.contains(owner)) return name(id) + ": its plan uses a GPU that is not its own";
  }
  for (const auto& [id, live] : planner.planner->jobs())
    if (!history_.launchers.contains(id)) return name(id) + " is known to the planner only";
  if (claimed != extensions) return "an extension in Slurm belongs to nobody, or one that is claimed does not exist";
  return "";
}

// Compares the store with the jobs on which planner, launchers and Slurm agree.
std::string Invariants::store_differs() {
  for (const auto& [id, process] : history_.launchers) {
    if (!process.launcher) continue;
    const ElasticJob job = process.launcher->state();
    const auto stored = history_.store_->job(id);
    if (!stored || stored->ended) return name(id) + ": the store takes it for ended";
    if (stored->job.generation != job.generation || stored->job.extensions != job.extensions)
      return name(id) + ": the store's record is not the launcher's state";
  }
  return open_in_store();
}

std::string Invariants::open_in_store() {
  for (const DecisionRecord& record : history_.store_->decisions(std::nullopt, 1000))
    if (record.decision.outcome.empty())
      return "decision " + std::to_string(record.decision.id) + " is open in the store";
  return "";
}

std::string Invariants::leftover() {
  for (const auto& [id, process] : history_.launchers)
    if (process.launcher) return name(id) + " still has its launcher";
  for (const SimNode& node : history_.slurm->nodes())
    for (const JobId owner : node.owner)
      if (owner != 0) return "a GPU of " + node.name + " is still held by job " + std::to_string(owner);
  for (const auto& [id, job] : history_.slurm->jobs())
    if (job.state != SlurmJobState::ended) return "job " + std::to_string(id) + " is still in Slurm's queue";
  if (!history_.training->ranks_alive().empty()) return "a rank is still there";
  if (!history_.planner_.party->alive) return "there is no planner";
  if (!history_.planner_.planner->jobs().empty()) return "the planner still knows a job";
  return open_in_store();
}

void Invariants::end_of_history() {
  constexpr Seconds kLasts = 4, kEnd = 60;
  // A change by checkpoint takes longer, and two bases are held for a minute and more.
  const Seconds agree = (history_.training->by_checkpoint ? 120 : 60) + (history_.movable ? 120 : 0);
  const Seconds now = history_.timeline.now();
  if (!history_.calm_ || now < history_.faults_->last()) return;
  if (calm_since_ < 0) calm_since_ = now;
  if (ended_since_ < 0) {
    std::string why = disagreement();
    const bool lasted = why.empty() && agreed_since_ >= 0 && now - agreed_since_ >= kLasts;
    if (why.empty() && (agreed_since_ < 0 || lasted)) why = store_differs();
    if (std::exchange(said_, why) != why) history_.note([&] { return "no agreement: " + why; });
    if (now - calm_since_ > agree)
      return history_.violate("no lasting agreement within " + std::to_string(std::lround(agree)) + " s of calm" +
                              (why.empty() ? "" : ": " + why));
    if (!why.empty()) {
      agreed_since_ = -1;
      return;
    }
    if (agreed_since_ < 0) {
      agreed_since_ = now;
      agreed_at_.clear();
      for (const auto& [id, process] : history_.launchers)
        if (process.launcher && process.launcher->phase() != JobPhase::launching) agreed_at_[id] = steps_[id].last;
    }
    if (!lasted) return;
    for (const auto& [id, step] : agreed_at_)
      if (history_.launchers.at(id).launcher && steps_[id].last <= step) return;
    history_.note([] { return "all agree; the jobs are cancelled"; });
    ended_since_ = now;
    for (const auto& [id, job] : history_.slurm->jobs())
      if (job.kind != SimJob::Kind::extension && job.kind != SimJob::Kind::base) history_.slurm->cancel(id);
    return;
  }
  const std::string why = leftover();
  if (why.empty()) history_.done_ = true;
  else if (now - ended_since_ > kEnd) history_.violate("60 s after the end of all jobs: " + why);
}

}  // namespace espalier::sim
