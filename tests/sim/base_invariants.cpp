#include "tests/sim/base_invariants.hpp"

#include <algorithm>

#include "launcher/job/launcher.hpp"
#include "planner/core/schedule/hindered.hpp"
#include "planner/core/schedule/move.hpp"
#include "tests/sim/faults.hpp"

namespace espalier::sim {
namespace {

constexpr Seconds kSlack = 3;  // as in invariants.cpp
constexpr Seconds kPoll = 4;   // the planner asks Slurm as often

std::string name(JobId job) { return "job " + std::to_string(job); }

}  // namespace

// What is held for a movable job ends with it, and is held for its next launcher for adoption_minutes at most.
void BaseInvariants::are_owned() {
  for (const auto& [id, job] : history_.slurm->jobs()) {
    const SimJob* const of = job.anchor == 0 ? nullptr : history_.slurm->find(job.anchor);
    if (of == nullptr || of->kind != SimJob::Kind::submitted || job.state == SlurmJobState::ended) continue;
    const std::string what =
        (job.kind == SimJob::Kind::base ? "base " : "extension ") + std::to_string(id) + " of " + name(job.anchor);
    const auto at = history_.launchers.find(job.anchor);
    const bool orphan = at == history_.launchers.end() || !at->second.launcher;
    const bool planner = history_.planner_.party->alive;
    // The keeper in a base's batch script asks Slurm every 2 s, the others every 30 s after up to 10 s. Where all are
    // gone, the planner ends it: after 10 s, seen every 4 s, again after 10 s.
    const bool over = of->state == SlurmJobState::ended;
    holds_(what + " over", over && planner, 10 + 4 + 10 + kSlack, what + ": its job has ended");
    holds_(what + " over alone", over, 10 + 30 + 10 + kSlack, what + ": its job has ended");
    holds_(what + " orphan", orphan && !over, 60 * history_.config.adoption_minutes + 20 + kSlack,
           what + ": has no launcher");
    const bool settled = !orphan && at->second.launcher->phase() == JobPhase::running;
    const bool unclaimed = settled && job.kind == SimJob::Kind::extension && !at->second.launcher->owns(id);
    holds_(what + " unclaimed", unclaimed && planner, 30 + 4 + 10 + kSlack, what + ": its launcher does not know it");
  }
}

// The bases in Slurm are those that the planner was told of, and training is on one of them. A base that waits beside
// it is larger.
std::string BaseInvariants::differ(JobId id) const {
  const SimJob* const submitted = history_.slurm->find(id);
  if (submitted == nullptr || submitted->kind != SimJob::Kind::submitted) return "";
  const auto bases = history_.slurm->marked(id, SimJob::Kind::base);
  const auto& told = history_.planner_.planner->jobs().at(id).bases;
  if (std::set<JobId>(told.begin(), told.end()) != std::set<JobId>(bases.begin(), bases.end()))
    return name(id) + ": the planner does not know its bases";
  const ElasticJob job = history_.launchers.at(id).launcher->state();
  if (job.phase != JobPhase::running) return "";
  if (job.anchor.empty()) return name(id) + ": trains without a base";
  const JobId base = job.anchor.front().job;
  if (std::find(bases.begin(), bases.end(), base) == bases.end()) return name(id) + ": its base does not exist";
  std::size_t own = 0;  // without nodes that were lost
  for (const Holding& held : history_.slurm->find(base)->holdings) own += held.gpus.size();
  for (const JobId other : bases) {
    const SimJob& beside = *history_.slurm->find(other);
    const bool larger = static_cast<std::size_t>(beside.nodes) * static_cast<std::size_t>(beside.gpus) > own;
    if (other != base && (beside.state != SlurmJobState::pending || !larger))
      return name(id) + ": holds base " + std::to_string(other) + " for nothing";
  }
  for (const GpuId& gpu : job.plan->ranks())  // the base's own GPUs there may be unfit
    for (const Holding& held : history_.slurm->find(base)->holdings)
      if (held.node == gpu.node) return "";
  return name(id) + ": trains on extensions alone";
}

void BaseInvariants::look() {
  are_owned();
  wait_as_wished();
  make_room();
}

void BaseInvariants::wished(JobId base, const std::vector<std::string>& nodes) {
  wishes_[base] = {nodes, history_.faults_->strikes()};
}

// A base that waits gets only the nodes that its user has named. A fault may cost the wish: the user sees in the
// launcher's output whether it was carried out.
void BaseInvariants::wait_as_wished() {
  for (const auto& [id, wish] : wishes_) {
    const SimJob& base = *history_.slurm->find(id);
    std::vector<std::string> kept_from;
    for (const SimNode& node : history_.slurm->nodes())
      if (static_cast<int>(node.owner.size()) < base.gpus ||
          (!wish.nodes.empty() && std::find(wish.nodes.begin(), wish.nodes.end(), node.name) == wish.nodes.end()))
        kept_from.push_back(node.name);
    const auto left = static_cast<int>(history_.slurm->nodes().size() - kept_from.size());
    const bool counts = base.state == SlurmJobState::pending && wish.strikes == history_.faults_->strikes() &&
                        left >= base.nodes;  // else the launcher leaves it as it is, and says so
    holds_("base " + std::to_string(id) + " wish", counts && base.excluded != kept_from, 3 + kSlack,
           "base " + std::to_string(id) + ": may get nodes that its user does not want");
  }
}

// A job that began to wait while a base moves does not wait for the second base, until training has gone over.
void BaseInvariants::make_room() {
  if (!history_.planner_.party->alive) return;
  for (const auto& [id, live] : history_.planner_.planner->jobs()) {
    const JobId waits = waits_for_second(id, live);
    bool told = waits != 0;
    if (told) {  // a fault may cost the message
      const int now = history_.faults_->strikes();
      told = strikes_at_.try_emplace(live.open->decision.id, now).first->second == now;
    }
    holds_(name(id) + " makes room", told, kPoll + kSlack,
           name(id) + ": its second base keeps " + name(waits) + " waiting");
  }
}

// 0: none waits for it.
JobId BaseInvariants::waits_for_second(JobId job, const LiveJob& live) const {
  const auto at = history_.launchers.find(job);
  if (at == history_.launchers.end() || !at->second.launcher || !live.link || !live.open ||
      !moves_base(live.open->decision))
    return 0;
  const JobPhase phase = at->second.launcher->phase();
  if (phase != JobPhase::acquiring && phase != JobPhase::starting && phase != JobPhase::ready) return 0;
  const SlurmSnapshot slurm = history_.slurm->snapshot();
  const auto own = history_.slurm->marked(job, SimJob::Kind::base);
  std::set<JobId> before(own.begin(), own.end());
  for (const WaitingJob& one : slurm.cluster.waiting)
    if (slurm.jobs.at(one.id).submitted <= live.open->decision.time) before.insert(one.id);
  for (const JobId base : own)
    if (!live.before.contains(base) && history_.slurm->find(base)->state == SlurmJobState::running)
      if (const JobId waits = hindered_by(base, before, slurm.cluster); waits != 0) return waits;
  return 0;
}

}  // namespace espalier::sim
