#include "tests/sim/slurm_model.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::sim {

SlurmModel::SlurmModel(Timeline& timeline, Random& random, Mutant mutant, std::vector<SimNode> nodes, Hooks hooks)
    : timeline_(timeline), random_(random), mutant_(mutant), nodes_(std::move(nodes)), hooks_(std::move(hooks)) {
  tick();
}

void SlurmModel::tick() {
  timeline_.at(timeline_.now() + kBackfill, nullptr, [this] {
    schedule();
    tick();
  });
}

SimNode& SlurmModel::named(const std::string& node) {
  return *std::find_if(nodes_.begin(), nodes_.end(), [&](const SimNode& one) { return one.name == node; });
}

const SimJob* SlurmModel::find(JobId id) const {
  const auto at = jobs_.find(id);
  return at == jobs_.end() ? nullptr : &at->second;
}

JobId SlurmModel::owner(const GpuId& gpu) const {
  for (const SimNode& node : nodes_)
    if (node.name == gpu.node && gpu.index >= 0 && gpu.index < static_cast<int>(node.owner.size()))
      return node.owner[static_cast<std::size_t>(gpu.index)];
  return 0;
}

bool SlurmModel::runs_steps(JobId id, const std::string& node) const {
  const SimJob* job = find(id);
  return job != nullptr && job->state == SlurmJobState::running &&
         std::any_of(job->holdings.begin(), job->holdings.end(), [&](const Holding& h) { return h.node == node; }) &&
         std::any_of(nodes_.begin(), nodes_.end(), [&](const SimNode& one) { return one.name == node && one.up; });
}

JobId SlurmModel::submit(SimJob job) {
  job.id = ++last_;
  job.submitted = timeline_.now();
  jobs_[job.id] = job;
  hooks_.event("ESP1 job_submitted uid=1 gpus=" + std::to_string(job.gpus) + " nodes=1 elastic=0");
  timeline_.at(timeline_.now() + random_.real(0.01, 0.3), nullptr, [this] { schedule(); });
  return job.id;
}

JobId SlurmModel::submit_extension(const launcher::ExtensionJob& request) {
  SimJob job;
  job.id = ++last_;
  job.kind = SimJob::Kind::extension;
  job.gpus = request.request.gpus;
  job.node = request.request.node;
  job.comment = request.comment;
  job.environment = request.environment;
  job.submitted = timeline_.now();
  job.limit = kMinute * std::max(request.request.lease_minutes, 1);
  job.deadline = job.submitted + request.grant_seconds + job.limit + kMinute;
  job.anchor = anchor_of_comment(job.comment);
  return admit(std::move(job), request.immediate);
}

// `immediate`: it starts now, or is refused.
JobId SlurmModel::admit(SimJob job, bool immediate) {
  job.submitted = timeline_.now();
  if (immediate && (somebody_waits() || random_.chance(0.3) || !try_start(job)))
    throw Error("slurm: insufficient priority (2013)");
  const JobId id = job.id;
  jobs_[id] = std::move(job);
  return id;
}

JobId SlurmModel::submit_base(const launcher::BaseJob& request) {
  SimJob job;
  job.id = ++last_;
  job.kind = SimJob::Kind::base;
  job.nodes = request.shape.nodes;
  job.gpus = request.shape.gpus_per_node;
  job.only = request.only;
  if (job.only.empty()) job.excluded = request.shape.excluded;
  job.comment = request.comment;
  job.environment = request.environment;
  job.anchor = submitted_of_base(job.comment);
  const JobId id = admit(std::move(job), request.immediate);
  if (!request.immediate) timeline_.at(timeline_.now() + random_.real(0.01, 0.3), nullptr, [this] { schedule(); });
  return id;
}

bool SlurmModel::somebody_waits() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& one) {
    return one.second.state == SlurmJobState::pending && one.second.kind != SimJob::Kind::extension;
  });
}

std::vector<JobId> SlurmModel::marked(JobId submitted, SimJob::Kind kind) const {
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_)
    if (job.kind == kind && job.anchor == submitted &&
        (job.state == SlurmJobState::pending || job.state == SlurmJobState::running))
      ids.push_back(id);
  return ids;
}

bool SlurmModel::may_use(const SimJob& job, const SimNode& node) {
  const auto names = [&](const std::vector<std::string>& nodes) {
    return std::find(nodes.begin(), nodes.end(), node.name) != nodes.end();
  };
  return node.up && (job.node.empty() || job.node == node.name) && (job.only.empty() || names(job.only)) &&
         !names(job.excluded);
}

void SlurmModel::exclude(JobId id, const std::vector<std::string>& nodes) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end() || at->second.state != SlurmJobState::pending)
    throw Error("slurm: the excluded nodes of job " + std::to_string(id) + " cannot be changed");
  if (mutant_ != Mutant::deaf_to_steering) at->second.excluded = nodes;
}

// Finds its nodes and takes their GPUs.
bool SlurmModel::place(SimJob& job) {
  if (job.kind == SimJob::Kind::submitted) {
    std::vector<std::string> up;
    for (const SimNode& node : nodes_)
      if (node.up) up.push_back(node.name);
    if (up.empty()) return false;
    job.holdings = {{job.id, up[static_cast<std::size_t>(random_.below(static_cast<int>(up.size())))], {}}};
    return true;
  }
  std::vector<std::pair<SimNode*, std::vector<int>>> chosen;
  const auto fits = [&](SimNode& node) {
    if (!may_use(job, node)) return false;
    std::vector<int> idle;
    for (std::size_t i = 0; i < node.owner.size(); ++i) {
      const bool taken = node.owner[i] != 0 && !(mutant_ == Mutant::double_grant && random_.chance(0.5));
      if (!taken) idle.push_back(static_cast<int>(i));
    }
    if (static_cast<int>(idle.size()) < job.gpus) return false;
    while (static_cast<int>(idle.size()) > job.gpus)
      idle.erase(idle.begin() + random_.below(static_cast<int>(idle.size())));
    chosen.emplace_back(&node, idle);
    return static_cast<int>(chosen.size()) == job.nodes;
  };
  if (!std::any_of(nodes_.begin(), nodes_.end(), fits)) return false;
  job.holdings.clear();
  for (const auto& [node, idle] : chosen) {
    for (const int index : idle) node->owner[static_cast<std::size_t>(index)] = job.id;
    job.holdings.push_back({job.id, node->name, idle});
  }
  return true;
}

bool SlurmModel::try_start(SimJob& job) {
  if (timeline_.now() < job.begin || !place(job)) return false;
  job.state = SlurmJobState::running;
  job.started = timeline_.now();
  const bool boots = job.kind == SimJob::Kind::base && longest_boot > 0;
  job.configured = timeline_.now() + (boots ? random_.real(0, longest_boot) : 0);
  timeline_.at(job.configured + random_.real(0.05, 0.6), nullptr, [this, id = job.id] {
    const SimJob* started = find(id);
    if (started != nullptr && started->state == SlurmJobState::running) hooks_.start(*started);
  });
  if (job.limit > 0)
    timeline_.at(timeline_.now() + job.limit, nullptr, [this, id = job.id] {
      SimJob& late = jobs_.at(id);
      if (late.state == SlurmJobState::running && leases_end) end(late, kKillWait);
    });
  return true;
}

void SlurmModel::schedule() {
  if (!answers()) return;
  bool somebody_waits = false;  // for GPUs
  for (auto& [id, job] : jobs_) {
    if (job.state != SlurmJobState::pending || job.kind == SimJob::Kind::extension) continue;
    if (try_start(job) || job.kind == SimJob::Kind::submitted) continue;
    somebody_waits = true;
    make_room(job);
  }
  for (auto& [id, job] : jobs_) {
    if (job.state != SlurmJobState::pending || job.kind != SimJob::Kind::extension) continue;
    if (job.deadline > 0 && timeline_.now() + job.limit > job.deadline) {
      job.state = SlurmJobState::ended;
      job.ended = timeline_.now();
    } else if (!somebody_waits || random_.chance(0.2)) {
      try_start(job);
    }
  }
}

// Preemption: extensions on as many nodes as the job wants are ended, so that it fits there.
void SlurmModel::make_room(const SimJob& job) {
  std::vector<std::pair<SimNode*, int>> chosen;  // and the GPUs that it lacks there
  for (SimNode& node : nodes_) {
    if (!may_use(job, node)) continue;
    int room = 0, may_go = 0;
    for (const JobId owner : node.owner) {
      const SimJob* holder = owner == 0 ? nullptr : &jobs_.at(owner);
      const bool goes = holder != nullptr && (holder->preempted || holder->state == SlurmJobState::completing);
      if (holder == nullptr || goes || holder->kind == SimJob::Kind::extension) ++room;
      if (holder != nullptr && !goes && holder->kind == SimJob::Kind::extension) ++may_go;
    }
    if (room < job.gpus) continue;
    chosen.emplace_back(&node, job.gpus - (room - may_go));
    if (static_cast<int>(chosen.size()) < job.nodes) continue;
    for (const auto& [where, lacking] : chosen) preempt(*where, lacking);
    return;
  }
}

void SlurmModel::preempt(SimNode& node, int lacking) {
  for (const JobId owner : std::vector(node.owner)) {  // an entry for each GPU
    SimJob* victim = owner == 0 ? nullptr : &jobs_.at(owner);
    if (victim == nullptr || victim->kind != SimJob::Kind::extension || victim->state == SlurmJobState::completing)
      continue;
    if (lacking-- <= 0) break;
    if (victim->preempted) continue;
    victim->preempted = true;
    hooks_.signal(*victim);
    timeline_.at(timeline_.now() + kGrace + random_.real(0, 5), nullptr, [this, id = victim->id] {
      SimJob& late = jobs_.at(id);
      if (late.state == SlurmJobState::running) end(late, 0);
    });
  }
}

void SlurmModel::cancel(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return;
  if (at->second.state == SlurmJobState::pending) {
    at->second.state = SlurmJobState::ended;
    at->second.ended = timeline_.now();
  } else if (at->second.state == SlurmJobState::running) {
    end(at->second, kKillWait);
  }
}

void SlurmModel::give_back(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end() || undying(at->second)) return;
  if (at->second.state == SlurmJobState::pending) cancel(id);
  else if (at->second.state != SlurmJobState::ended) kill(at->second);
}

void SlurmModel::over(JobId id) {
  const auto at = jobs_.find(id);
  if (at != jobs_.end() && at->second.state != SlurmJobState::ended && !undying(at->second)) kill(at->second);
}

void SlurmModel::end(SimJob& job, Seconds patience) {
  job.state = SlurmJobState::completing;
  if (patience > 0) hooks_.signal(job);
  timeline_.at(timeline_.now() + patience, nullptr, [this, id = job.id] {
    SimJob& late = jobs_.at(id);
    if (late.state == SlurmJobState::completing) kill(late);
  });
}

void SlurmModel::kill(SimJob& job) {
  job.state = SlurmJobState::completing;
  hooks_.kill(job);
  timeline_.at(timeline_.now() + random_.real(0.01, 0.3), nullptr, [this, id = job.id] {
    SimJob& gone = jobs_.at(id);
    if (gone.state == SlurmJobState::ended || gone.state == SlurmJobState::pending) return;
    if (std::exchange(gone.runs_again, false)) {
      gone.state = SlurmJobState::pending;
      gone.holdings.clear();
      gone.begin = timeline_.now() + random_.real(2, 12);
      ++gone.restarts;
      return;
    }
    gone.state = SlurmJobState::ended;
    gone.ended = timeline_.now();
    for (SimNode& node : nodes_) {
      if (std::find(node.owner.begin(), node.owner.end(), id) == node.owner.end()) continue;
      std::replace(node.owner.begin(), node.owner.end(), id, JobId{0});
      hooks_.event("ESP1 gpus_released job=" + std::to_string(id) + " node=" + node.name + " gpus=0 exit=0");
    }
    schedule();
  });
}

void SlurmModel::fail_node(const std::string& name) {
  named(name).up = false;
  timeline_.at(timeline_.now() + random_.real(1, 8), nullptr, [this, name] {
    for (auto& [id, job] : jobs_) {
      if ((job.state != SlurmJobState::running && job.state != SlurmJobState::completing) ||
          std::none_of(job.holdings.begin(), job.holdings.end(), [&](const Holding& h) { return h.node == name; }))
        continue;
      // A base is submitted with --no-kill, and a movable job with --requeue, as sbatch has it by default.
      if (job.kind == SimJob::Kind::base && job.state == SlurmJobState::running && job.holdings.size() > 1) {
        excise(job, name);
        continue;
      }
      job.runs_again = job.kind == SimJob::Kind::submitted && job.state == SlurmJobState::running;
      kill(job);
    }
  });
}

void SlurmModel::excise(SimJob& job, const std::string& name) {
  std::erase_if(job.holdings, [&](const Holding& held) { return held.node == name; });
  std::replace(named(name).owner.begin(), named(name).owner.end(), job.id, JobId{0});
  hooks_.leave_node(job.id, name);
}

SlurmSnapshot SlurmModel::snapshot() const {
  SlurmSnapshot result;
  result.slurm_user = 1;
  for (const SimNode& node : nodes_) {
    NodeView view;
    view.name = node.name;
    view.gpu_type = "h100";
    view.switches = {"spine", "leaf1"};
    view.gpu_owner = node.owner;
    view.free_cpus = 64;
    view.free_memory_mb = 64000;
    view.usable = node.up;
    for (std::size_t i = 0; i < node.owner.size(); ++i) {
      const SimJob* holder = node.owner[i] == 0 ? nullptr : find(node.owner[i]);
      if (holder != nullptr && (holder->preempted || holder->state == SlurmJobState::completing))
        view.freeing.push_back(static_cast<int>(i));
    }
    result.cluster.nodes.push_back(std::move(view));
  }
  for (const auto& [id, job] : jobs_) {
    if (job.state == SlurmJobState::ended && timeline_.now() - job.ended > 20) continue;  // as after MinJobAge
    SlurmJob record;
    record.id = id;
    record.uid = ::getuid();
    record.comment = job.comment;
    record.submitted = wire::unix_seconds() - (timeline_.now() - job.submitted);
    record.wanted_gpus = job.kind == SimJob::Kind::submitted ? 0 : job.gpus * job.nodes;
    record.partition = job.kind == SimJob::Kind::extension ? kPartition : "main";
    record.state = job.state;
    if (job.state == SlurmJobState::running || job.state == SlurmJobState::completing) record.holdings = job.holdings;
    if (job.kind == SimJob::Kind::submitted) record.holdings.clear();  // Slurm names what has GPUs
    record.preempted = tells_preemption(job) && job.state == SlurmJobState::running;
    result.jobs[id] = std::move(record);
    if (job.state == SlurmJobState::pending && job.kind != SimJob::Kind::extension &&
        job.kind != SimJob::Kind::submitted) {
      WaitingJob waiting;
      waiting.id = id;
      waiting.gpus = job.gpus * job.nodes;
      waiting.nodes = job.nodes;
      if (!job.node.empty()) waiting.only_nodes = {job.node};
      if (!job.only.empty()) waiting.only_nodes = job.only;
      if (!job.excluded.empty()) {
        std::vector<std::string> others = waiting.only_nodes;
        for (const SimNode& node : nodes_)
          if (std::find(job.excluded.begin(), job.excluded.end(), node.name) == job.excluded.end())
            others.push_back(node.name);
        waiting.only_nodes = std::move(others);
      }
      waiting.priority = 1000.0 - id;
      result.cluster.waiting.push_back(waiting);
    }
  }
  return result;
}

}  // namespace espalier::sim
