#include "planner/daemon/slurm_jobs.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/feature_expression.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/gpu_request.hpp"
#include "planner/slurm/job_record.h"
#include "planner/slurm/limit_reason.h"

namespace espalier {
namespace {

std::string text(const char* value) { return value == nullptr ? "" : value; }

SlurmJobState state_of(std::uint32_t state) {
  switch (state & JOB_STATE_BASE) {
    case JOB_PENDING:
      return SlurmJobState::pending;
    case JOB_RUNNING:
    case JOB_SUSPENDED:
      return state & JOB_COMPLETING ? SlurmJobState::completing : SlurmJobState::running;
    default:
      return state & JOB_COMPLETING ? SlurmJobState::completing : SlurmJobState::ended;
  }
}

int known(std::uint32_t value) {
  return value >= INFINITE || value == NO_VAL ? 1 : static_cast<int>(std::min(value, 1u << 20));
}

int wanted_gpus(const slurm_job_info_t& job) {
  GpuRequest request;
  request.per_job = text(job.tres_per_job);
  request.per_node = text(job.tres_per_node);
  request.per_socket = text(job.tres_per_socket);
  request.per_task = text(job.tres_per_task);
  request.nodes = known(job.num_nodes);
  request.tasks = known(job.num_tasks);
  request.sockets_per_node = job.sockets_per_node == NO_VAL16 ? 1 : job.sockets_per_node;
  request.tasks_per_gpu = job.ntasks_per_tres >= NO_VAL16 ? 0 : job.ntasks_per_tres;
  return requested_gpus(request);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

// Of each of its nodes, on average.
int wanted_cpus(const slurm_job_info_t& job) {
  const int all = job.num_cpus >= NO_VAL ? 1 : static_cast<int>(std::min(job.num_cpus, 1u << 20));
  return std::max({1, all / std::max(1, known(job.num_nodes)), job.pn_min_cpus >= NO_VAL16 ? 1 : int{job.pn_min_cpus}});
}

// The same. Negative: all of a node's, with --mem=0 and where the site has no DefMem.
long wanted_memory_mb(const slurm_job_info_t& job) {
  if (job.pn_min_memory == NO_VAL64) return 0;
  const auto memory = static_cast<long>(std::min<std::uint64_t>(job.pn_min_memory & ~MEM_PER_CPU, 1u << 30));
  if (memory == 0) return text(job.mem_per_tres).empty() ? -1 : 0;
  return (job.pn_min_memory & MEM_PER_CPU) != 0 ? memory * wanted_cpus(job) : memory;
}

// In a federation: another cluster runs the job, and this one keeps a record of it that says pending.
bool runs_at_sibling(const slurm_job_info_t& job) { return (job.job_state & JOB_REVOKED) != 0; }

// Limits that several jobs share, and that hold GPUs, CPUs, memory, nodes, their minutes, or jobs.
LimitOf limit_of(std::uint32_t reason) {
  switch (espalier_slurm_limit_of(reason)) {
    case ESPALIER_LIMIT_NONE:
      return LimitOf::none;
    case ESPALIER_LIMIT_OF_QOS:
      return LimitOf::qos;
    case ESPALIER_LIMIT_OF_USER_IN_QOS:
      return LimitOf::user_in_qos;
    case ESPALIER_LIMIT_OF_ACCOUNT_IN_QOS:
      return LimitOf::account_in_qos;
    case ESPALIER_LIMIT_OF_ACCOUNT:
      return LimitOf::account;
    case ESPALIER_LIMIT_OF_USER_IN_ACCOUNT:
      return LimitOf::user_in_account;
  }
  return LimitOf::none;
}

}  // namespace

SlurmJob convert_job(const slurm_job_info_t& job) {
  SlurmJob result;
  result.id = espalier_slurm_job_id(&job);
  result.uid = job.user_id;
  result.name = text(job.name);
  result.comment = text(job.comment);
  result.partition = text(job.partition);
  result.account = text(job.account);
  result.qos = text(job.qos);
  result.features = text(job.features);
  result.reservation = text(job.resv_name);
  result.state = state_of(job.job_state);
  result.submitted = static_cast<double>(job.submit_time);
  result.wanted_gpus = wanted_gpus(job);
  result.priority = job.priority;
  if (result.state == SlurmJobState::pending && job.priority != 0 && !runs_at_sibling(job))
    result.limit = limit_of(job.state_reason);
  if (result.state != SlurmJobState::pending) result.started = static_cast<double>(job.start_time);
  if (result.state == SlurmJobState::ended || result.state == SlurmJobState::completing)
    result.ended = static_cast<double>(job.end_time);
  if (result.state != SlurmJobState::running && result.state != SlurmJobState::completing) return result;
  if (result.state == SlurmJobState::running && job.time_limit != INFINITE && job.time_limit != NO_VAL)
    result.ends = static_cast<double>(job.end_time);
  result.suspended = (job.job_state & JOB_STATE_BASE) == JOB_SUSPENDED && result.state == SlurmJobState::running;
  result.preempted = job.preempt_time > 0 && job.preempt_time >= job.start_time;
  const auto nodes = expand_hosts(job.nodes);
  for (std::size_t i = 0; i < nodes.size() && i < job.gres_detail_cnt; ++i) {
    try {
      const auto gpus = parse_gpu_gres(text(job.gres_detail_str[i])).indices;
      if (!gpus.empty()) result.holdings.push_back({result.id, nodes[i], gpus});
    } catch (const Error&) {
      // Unreadable: its GPUs count as used by an unknown owner.
    }
  }
  return result;
}

void note_cpu_job(const slurm_job_info_t& record, const SlurmJob& job, ClusterView& cluster) {
  if (job.state != SlurmJobState::running && job.state != SlurmJobState::completing) return;
  if (job.holdings.size() >= record.num_nodes) return;
  for (const std::string& name : expand_hosts(record.nodes))
    if (std::none_of(job.holdings.begin(), job.holdings.end(), [&](const Holding& held) { return held.node == name; }))
      if (NodeView* const node = cluster.find(name)) node->cpu_jobs = true;
}

void add_user(const slurm_job_info_t& job, std::map<std::string, std::set<uid_t>>& users) {
  const SlurmJobState state = state_of(job.job_state);
  if (state != SlurmJobState::running && state != SlurmJobState::completing) return;
  for (const std::string& node : expand_hosts(job.nodes)) users[node].insert(job.user_id);
}

bool waits_for_resources(const slurm_job_info_t& job, double now) {
  if ((job.job_state & JOB_STATE_BASE) != JOB_PENDING || job.priority == 0 || runs_at_sibling(job)) return false;
  if (static_cast<double>(job.eligible_time) > now) return false;  // e.g. --begin
  switch (job.state_reason) {
    case WAIT_NODE_NOT_AVAIL:  // also said of required nodes that others hold
      // "ReqNodeNotAvail, Reserved for maintenance": it would not end before that.
      if (text(job.state_desc).find("eserved for maintenance") != std::string::npos) return false;
      [[fallthrough]];
    case WAIT_NO_REASON:
    case WAIT_PRIORITY:
    case WAIT_RESOURCES:
      return true;
    default:  // a dependency, a limit, a hold: free GPUs would not start it
      return false;
  }
}

std::string preempt_mode_text(std::uint16_t mode) {
  if (mode & PREEMPT_MODE_CANCEL) return "CANCEL";
  if (mode & PREEMPT_MODE_REQUEUE) return "REQUEUE";
  return mode & PREEMPT_MODE_SUSPEND ? "SUSPEND" : "OFF";
}

NodesForJobs::NodesForJobs(const PartitionNodes& partitions, const Sets& types, const Sets& features,
                           const std::map<std::string, Reservation>& reservations, std::map<std::string, uid_t> owners)
    : partitions_(partitions),
      types_(types),
      reservations_(reservations),
      owners_(std::move(owners)),
      everywhere_{partitions.all, {}} {
  for (const auto& [node, owner] : owners_) owning_.insert(owner);
  for (const auto& [node, those] : features) by_features_[those].insert(node);
}

NodesForJobs::Answer NodesForJobs::answer(std::set<std::string> nodes) const {
  NodeList list;
  if (nodes != partitions_.all) list = std::vector<std::string>(nodes.begin(), nodes.end());
  return {std::move(nodes), std::move(list)};
}

const NodesForJobs::Answer& NodesForJobs::of_partitions(const slurm_job_info_t& job) {
  const std::string list = text(job.partition);  // a pending job may name several
  auto at = known_partitions_.find(list);
  if (at == known_partitions_.end()) {
    if (known_partitions_.size() >= kMostRequests) return everywhere_;
    std::set<std::string> nodes;
    for (const std::string& name : words_of(list)) {
      const auto found = partitions_.by_partition.find(name);
      if (found != partitions_.by_partition.end()) nodes.insert(found->second.begin(), found->second.end());
    }
    at = known_partitions_.emplace(list, answer(std::move(nodes))).first;
  }
  return at->second;
}

bool NodesForJobs::is_kept_from(uid_t user, const std::string& node) const {
  const auto owned = owners_.find(node);
  return owned != owners_.end() && owned->second != user;
}

std::optional<NodeList> NodesForJobs::without(const slurm_job_info_t& job, const std::vector<std::string>& excluded) {
  const Answer& asked = find(job);
  // Each job may exclude other nodes, so that these lists are shared by nobody.
  if (!excluded.empty()) return narrowed(job, asked, excluded);
  if (owners_.empty()) return asked.list;
  const uid_t user = job.user_id;
  const std::pair key(&asked, owning_.contains(user) ? std::optional(user) : std::nullopt);
  const auto at = known_open_.find(key);
  return at != known_open_.end() ? at->second : known_open_[key] = narrowed(job, asked, excluded);
}

std::optional<NodeList> NodesForJobs::narrowed(const slurm_job_info_t& job, const Answer& asked,
                                               const std::vector<std::string>& excluded) {
  const Answer* of = &asked;
  if (named_ + of->nodes.size() > kMostNames) return asked.list;
  const std::set<std::string> left_out(excluded.begin(), excluded.end());
  const auto rest = [&] {
    std::vector<std::string> nodes;
    auto owned = owners_.begin();  // sorted, as the nodes are
    for (const std::string& node : of->nodes) {
      while (owned != owners_.end() && owned->first < node) ++owned;
      const bool kept = owned != owners_.end() && owned->first == node && owned->second != job.user_id;
      if (!kept && !left_out.contains(node)) nodes.push_back(node);
    }
    return nodes;
  };
  std::vector<std::string> nodes = rest();
  if (nodes.empty()) {  // what it asks for was understood more narrowly than Slurm does
    of = &of_partitions(job);
    nodes = rest();
  }
  if (nodes.empty()) return std::nullopt;
  if (nodes.size() == of->nodes.size()) return of->list;
  named_ += nodes.size();
  return NodeList(std::move(nodes));
}

const NodesForJobs::Answer& NodesForJobs::find(const slurm_job_info_t& job) {
  const Answer& partitions = of_partitions(job);
  std::string constraint = text(job.features);
  if (constraint.size() > kLongestConstraint) constraint.clear();
  std::set<std::string> types;
  for (const char* gres : {job.tres_per_job, job.tres_per_node, job.tres_per_socket, job.tres_per_task})
    types.merge(gpu_types(text(gres)));
  std::vector<std::string> asked{text(job.partition), constraint, text(job.resv_name)};
  if (types.empty() && constraint.empty() && asked[2].empty()) return partitions;
  asked.insert(asked.end(), types.begin(), types.end());
  auto at = known_.find(asked);
  if (at == known_.end()) {
    if (known_.size() >= kMostRequests || named_ > kMostNames) return partitions;
    std::set<std::string> nodes = fitting(asked, types, partitions.nodes);
    // Slurm lets no such job wait. What it asks for was not understood here.
    if (nodes.empty()) nodes = partitions.nodes;
    named_ += nodes.size();
    at = known_.emplace(std::move(asked), answer(std::move(nodes))).first;
  }
  return at->second;
}

std::set<std::string> NodesForJobs::fitting(const std::vector<std::string>& asked, const std::set<std::string>& types,
                                            const std::set<std::string>& partitions) const {
  std::set<std::string> nodes = partitions;
  if (!types.empty())
    std::erase_if(nodes, [&](const std::string& node) {
      const auto there = types_.find(node);
      return there == types_.end() || std::none_of(types.begin(), types.end(), [&](const std::string& type) {
               return there->second.contains(type);
             });
    });
  if (!asked[1].empty())
    for (const auto& [features, those] : by_features_)
      if (!may_be_on(asked[1], features))
        for (const std::string& node : those) nodes.erase(node);
  std::set<std::string> reserved;
  bool bound = !asked[2].empty();
  for (const std::string& name : words_of(asked[2])) {
    const auto found = reservations_.find(name);
    // Slurm tells of new reservations a minute late, and a flexible one lets its jobs use other nodes, too.
    bound = bound && found != reservations_.end() && !found->second.flexible;
    if (bound) reserved.insert(found->second.nodes.begin(), found->second.nodes.end());
  }
  if (bound) std::erase_if(nodes, [&](const std::string& node) { return !reserved.contains(node); });
  return nodes;
}

std::optional<WaitingJob> convert_waiting(const slurm_job_info_t& job, NodesForJobs& nodes, bool slurm_preempts,
                                          double now, const RunningTasks& running) {
  WaitingJob waiting;
  waiting.tasks = waiting_tasks(job, running);
  if (waiting.tasks < 1) return std::nullopt;
  waiting.id = espalier_slurm_job_id(&job);
  waiting.gpus = wanted_gpus(job);
  waiting.nodes = known(job.num_nodes);
  waiting.priority = job.priority;
  waiting.whole_nodes = job.shared == JOB_SHARED_NONE;
  waiting.cpus = wanted_cpus(job);
  waiting.memory_mb = wanted_memory_mb(job);
  // Its reason says little: Slurm may have given one when it had only looked whether the job could start at once, and
  // what it waits for may be a GPU whose job is about to be gone.
  const double eligible = now - static_cast<double>(job.eligible_time);
  waiting.slurm_preempts = slurm_preempts;
  waiting.left_to_slurm = slurm_preempts && eligible < kLeftToSlurmSeconds;
  if (static_cast<double>(job.start_time) > now) waiting.expected_start = static_cast<double>(job.start_time);
  waiting.starts_later = slurm_preempts && eligible >= kSlurmHasLookedSeconds && waiting.expected_start &&
                         *waiting.expected_start - now >= kStartsLaterSeconds;

  std::vector<std::string> required, excluded;
  try {
    excluded = expand_hosts(job.exc_nodes);
    required = expand_hosts(job.req_nodes);
  } catch (const Error&) {
    // A user's list of too many names must not cost the others their decisions. Slurm itself heeds it.
  }
  const std::optional<NodeList> allowed = nodes.without(job, excluded);
  if (!allowed && required.empty()) return std::nullopt;
  const auto kept = [&](const std::string& node) { return nodes.is_kept_from(job.user_id, node); };
  if (std::any_of(required.begin(), required.end(), kept)) return std::nullopt;
  // A job without GPUs may be on all nodes of its partition, too. But one that waits for a node that is down would then
  // keep extensions away from all of them.
  if (!required.empty() && (static_cast<int>(required.size()) >= waiting.nodes || waiting.gpus == 0)) {
    std::sort(required.begin(), required.end());
    waiting.only_nodes = std::move(required);
  } else if (allowed) {
    waiting.only_nodes = *allowed;
  }
  return waiting;
}

}  // namespace espalier
