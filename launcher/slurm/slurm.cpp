#include "launcher/slurm/slurm.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "launcher/slurm/job_state.hpp"
#include "launcher/slurm/libslurm.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/slurm/accounting.h"
#include "planner/slurm/job_record.h"
#include "planner/slurm/kill.h"
#include "planner/slurm/limit_reason.h"
#include "planner/slurm/site.h"

namespace espalier::launcher {
namespace {

// Up to so many jobs are asked about one by one. slurmctld then sends less than for all jobs of a user, who may have
// thousands that wait.
constexpr std::size_t kSingly = 4;

// Whether a job named a GPU type in its request.
bool names_type(const slurm_job_info_t& job) {
  for (const char* request : {job.tres_per_job, job.tres_per_node, job.tres_per_socket, job.tres_per_task})
    if (!gpu_types(text(request)).empty()) return true;
  return false;
}

// Of "gres:gpu:TYPE:COUNT", as every release of Slurm ends it; 0: there is no count.
int number_behind(const std::string& request) {
  const auto at = request.find_last_of(":=");
  int count = 0;
  if (at != std::string::npos) std::from_chars(request.data() + at + 1, request.data() + request.size(), count);
  return count;
}

// "gres:gpu:TYPE:COUNT". Where the anchor named a type, or the node has several, the type that is lent there; else
// none.
std::string gpu_request(const ExtensionRequest& request, bool typed) {
  const std::string count = std::to_string(request.gpus), gres = gres_of(request.node);
  const std::string type = typed || gpu_counts(gres).size() > 1 ? lent_type(gres).value_or("") : "";
  return "gres:gpu:" + (type.empty() ? "" : type + ":") + count;
}

// What espalier_slurm_each_qos tells of one QOS.
struct QosGrace {
  const std::string& name;
  std::optional<int> seconds;
  static void look(void* self, const espalier_qos* qos) {
    auto* wanted = static_cast<QosGrace*>(self);
    if (wanted->name == qos->name) wanted->seconds = static_cast<int>(qos->grace_seconds);
  }
};

bool is_gone(int error) {
  return error == ESLURM_INVALID_JOB_ID || error == ESLURM_ALREADY_DONE || error == ESLURM_JOB_SCRIPT_MISSING;
}

}  // namespace

std::string gres_of(const std::string& node) {
  initialize();
  node_info_msg_t* message = nullptr;
  std::string name = node;
  if (slurm_load_node_single(&message, name.data(), SHOW_ALL) != SLURM_SUCCESS) {
    if (is_denied()) return "";
    fail("slurm: node " + node + " cannot be read");
  }
  const Owned<node_info_msg_t, slurm_free_node_info_msg> owner(message);
  return message->record_count == 1 ? text(message->node_array[0].gres) : "";
}

namespace {

SlurmJob job_of(JobId id, const slurm_job_info_t& info) {
  SlurmJob job{
      id, state_of(info.job_state), info.user_id,        text(info.name),      text(info.account), text(info.comment),
      {}, info.preempt_time > 0,    text(info.features), text(info.resv_name), names_type(info)};
  job.partition = text(info.partition);
  job.qos = text(info.qos);
  if (const std::string wckey = text(info.wckey); !wckey.starts_with('*')) job.wckey = wckey;  // "*": the default one
  job.nice = static_cast<int>(static_cast<std::int64_t>(info.nice) - NICE_OFFSET);
  job.restarts = static_cast<int>(info.restart_cnt);
  job.cpus = static_cast<int>(info.num_cpus);
  if ((info.pn_min_memory & MEM_PER_CPU) == 0) job.memory_mb_per_node = static_cast<long>(info.pn_min_memory);
  job.may_be_requeued = info.requeue != 0;
  job.suspended = (info.job_state & JOB_STATE_BASE) == JOB_SUSPENDED;
  job.ended_well = (info.job_state & JOB_STATE_BASE) == JOB_COMPLETE;
  job.past_deadline = (info.job_state & JOB_STATE_BASE) == JOB_DEADLINE;
  job.runs_again = job.state == SlurmJob::State::completing && (info.job_state & JOB_STATE_BASE) == JOB_PENDING;
  job.ends = info.time_limit == INFINITE ? 0 : info.end_time;
  job.limit_minutes = info.time_limit == INFINITE || info.time_limit == NO_VAL ? 0 : info.time_limit;
  job.wanted_nodes = static_cast<int>(info.num_nodes);
  job.wanted_gpus_per_node = number_behind(text(info.tres_per_node));
  job.excluded = expand_hosts(info.exc_nodes);
  job.limited =
      job.state == SlurmJob::State::pending && espalier_slurm_limit_of(info.state_reason) != ESPALIER_LIMIT_NONE;
  job.beyond_partition =
      job.state == SlurmJob::State::pending && espalier_slurm_beyond_partition_time(info.state_reason);
  job.configuring = job.state == SlurmJob::State::running &&
                    ((info.job_state & JOB_CONFIGURING) != 0 || info.state_reason == WAIT_PROLOG);
  if (info.batch_flag != 0) job.batch_host = text(info.batch_host);
  const auto nodes = expand_hosts(info.nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Holding holding{id, nodes[i], {}};
    if (i < info.gres_detail_cnt && info.gres_detail_str != nullptr)
      holding.gpus = parse_gpu_gres(text(info.gres_detail_str[i])).indices;
    job.holdings.push_back(std::move(holding));
  }
  return job;
}

}  // namespace

std::optional<SlurmJob> load_job(JobId id) {
  initialize();
  job_info_msg_t* message = nullptr;
  if (espalier_slurm_load_job(&message, id, SHOW_DETAIL) != SLURM_SUCCESS) {
    if (is_gone(errno)) return std::nullopt;
    fail("slurm: job " + std::to_string(id) + " cannot be read");
  }
  const Owned<job_info_msg_t, slurm_free_job_info_msg> owner(message);
  if (message->record_count == 0) return std::nullopt;
  return job_of(id, message->job_array[0]);
}

std::map<JobId, SlurmJob> load_jobs(const std::set<JobId>& ids) {
  std::map<JobId, SlurmJob> jobs;
  if (ids.size() <= kSingly) {
    for (const JobId id : ids)
      if (auto job = load_job(id)) jobs.emplace(id, std::move(*job));
    return jobs;
  }
  initialize();
  job_info_msg_t* message = nullptr;
  if (slurm_load_job_user(&message, getuid(), SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS)
    fail("slurm: jobs cannot be asked for");
  const Owned<job_info_msg_t, slurm_free_job_info_msg> owner(message);
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    const slurm_job_info_t& info = message->job_array[i];
    if (const JobId id = espalier_slurm_job_id(&info); ids.contains(id)) jobs.emplace(id, job_of(id, info));
  }
  return jobs;
}

std::optional<int> idle_gpus(const std::string& node) {
  initialize();
  node_info_msg_t* message = nullptr;
  std::string name = node;
  if (slurm_load_node_single(&message, name.data(), SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS) {
    if (is_denied()) return std::nullopt;
    fail("slurm: node " + node + " cannot be read");
  }
  const Owned<node_info_msg_t, slurm_free_node_info_msg> owner(message);
  if (message->record_count != 1) throw Error("slurm: node " + node + " is not known");
  const node_info_t& info = message->node_array[0];
  const auto lent = lent_type(text(info.gres));
  return lent ? gpu_counts(text(info.gres))[*lent] - gpu_counts(text(info.gres_used))[*lent] : 0;
}

std::vector<NodeView> load_nodes(const std::vector<std::string>& names) {
  initialize();
  std::vector<NodeView> nodes;
  for (std::string name : names) {
    node_info_msg_t* message = nullptr;
    if (slurm_load_node_single(&message, name.data(), SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS) {
      if (is_denied()) return {};
      fail("slurm: node " + name + " cannot be read");
    }
    const Owned<node_info_msg_t, slurm_free_node_info_msg> owner(message);
    if (message->record_count != 1) throw Error("slurm: node " + name + " is not known");
    const GpuGres gres = parse_gpu_gres(text(message->node_array[0].gres));
    NodeView& node = nodes.emplace_back();
    node.name = name;
    node.gpu_type = lent_type(text(message->node_array[0].gres)).value_or(gres.type);
    node.gpu_owner.assign(static_cast<std::size_t>(std::clamp(gres.count, 0, kMostGpusOfNode)), 0);
  }
  return nodes;
}

JobId submit_extension(const ExtensionJob& job) {
  initialize();
  job_desc_msg_t description;
  slurm_init_job_desc_msg(&description);
  std::string name = job.name.empty() ? "ext-" + std::to_string(job.anchor) : job.name, partition = job.partition,
              account = job.account, comment = job.comment;
  std::string node = job.request.node, script = job.script, directory = job.directory, null = "/dev/null";
  std::string tres = gpu_request(job.request, job.typed_gpus);
  std::string qos = job.qos, constraint = job.constraint, reservation = job.reservation, wckey = job.wckey;
  std::vector<char*> environment;
  std::vector<std::string> variables = job.environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  description.name = name.data();
  description.partition = partition.data();
  if (!account.empty()) description.account = account.data();
  if (!qos.empty()) description.qos = qos.data();
  if (!constraint.empty()) description.features = constraint.data();
  if (!reservation.empty()) description.reservation = reservation.data();
  if (!wckey.empty()) description.wckey = wckey.data();
  if (job.nice > 0) description.nice = NICE_OFFSET + static_cast<std::uint32_t>(job.nice);
  std::string cluster = job.cluster;
  if (!cluster.empty()) description.clusters = cluster.data();
  description.comment = comment.data();
  description.req_nodes = node.data();
  description.min_nodes = description.max_nodes = 1;
  description.num_tasks = 1;
  const auto cpus = static_cast<std::uint32_t>(std::max(job.request.cpus, 1));
  description.cpus_per_task = static_cast<std::uint16_t>(std::min(cpus, 65000u));
  description.min_cpus = cpus;
  description.tres_per_node = tres.data();
  if (job.request.memory_mb > 0) description.pn_min_memory = static_cast<std::uint64_t>(job.request.memory_mb);
  description.time_limit = static_cast<std::uint32_t>(std::max(job.request.lease_minutes, 1));
  description.deadline =
      std::time(nullptr) + job.grant_seconds + 60 * (static_cast<std::time_t>(description.time_limit) + 1);
  description.requeue = 0;
  description.kill_on_node_fail = 1;
  description.user_id = getuid();
  description.group_id = getgid();
  description.work_dir = directory.data();
  description.script = script.data();
  description.environment = environment.data();
  description.env_size = static_cast<std::uint32_t>(variables.size());
  description.std_in = description.std_out = description.std_err = null.data();
  std::string output = job.output;
  if (!output.empty()) {
    description.std_out = description.std_err = output.data();
    description.open_mode = OPEN_MODE_APPEND;
  }
  description.begin_time = job.begin;
  description.immediate = job.immediate ? 1 : 0;
  submit_response_msg_t* answer = nullptr;
  if (slurm_submit_batch_job(&description, &answer) != SLURM_SUCCESS)
    fail("slurm: extension of " + std::to_string(job.request.gpus) + " GPUs on " + node + " refused");
  const Owned<submit_response_msg_t, slurm_free_submit_response_response_msg> owner(answer);
  return espalier_slurm_submitted_id(answer);
}

int kill_steps(JobId id, std::optional<std::uint32_t> except_step) {
  initialize();
  job_step_info_response_msg_t* message = nullptr;
  if (espalier_slurm_get_steps(id, &message) != SLURM_SUCCESS) {
    if (is_gone(errno)) return 0;
    fail("slurm: steps of job " + std::to_string(id) + " cannot be read");
  }
  const Owned<job_step_info_response_msg_t, slurm_free_job_step_info_response_msg> owner(message);
  int count = 0;
  for (std::uint32_t i = 0; i < message->job_step_count; ++i) {
    const auto step = message->job_steps[i].step_id.step_id;
    if (message->job_steps[i].step_id.job_id != id || step >= SLURM_MAX_NORMAL_STEP_ID || step == except_step) continue;
    ++count;
    espalier_slurm_kill_step(id, step, SIGKILL);  // an error is ignored: the step may have ended meanwhile
  }
  return count;
}

void give_back(JobId id, std::optional<std::uint32_t> own_step) {
  kill_steps(id, own_step);
  espalier_slurm_kill_job(id, SIGKILL, KILL_JOB_BATCH);
  if (espalier_slurm_kill_job(id, SIGKILL, 0) != SLURM_SUCCESS && !is_gone(errno))
    fail("slurm: job " + std::to_string(id) + " cannot be given back");
}

void end_step(JobId id, std::uint32_t step) {
  initialize();
  if (espalier_slurm_kill_step(id, step, SIGHUP) != SLURM_SUCCESS && !is_gone(errno))
    fail("slurm: step " + std::to_string(id) + "." + std::to_string(step) + " cannot be ended");
}

void requeue(JobId id) {
  initialize();
  if (espalier_slurm_requeue(id) != SLURM_SUCCESS && !is_gone(errno))
    fail("slurm: job " + std::to_string(id) + " cannot be requeued");
}

SlurmSite load_site(const std::string& extension_qos) {
  initialize();
  SlurmSite site;
  slurm_conf_t* conf = nullptr;
  if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) fail("slurm: slurm.conf cannot be asked for");
  site.cluster = text(conf->cluster_name);
  site.auth_type = text(conf->authtype);
  site.planner_uids.push_back(conf->slurm_user_id);
  const std::string plugins = text(conf->task_plugin);
  site.binds_cpus = plugins.find("affinity") != std::string::npos || plugins.find("cgroup") != std::string::npos;
  site.kill_wait_seconds = conf->kill_wait;
  if (const std::string scheduler = text(conf->sched_params); scheduler.find("bf_interval=") != std::string::npos)
    site.backfill_seconds = std::max(1, std::atoi(scheduler.c_str() + scheduler.find("bf_interval=") + 12));
  const bool by_qos = text(conf->preempt_type) == "preempt/qos";
  espalier_slurm_free_conf(conf);
  QosGrace qos{extension_qos, {}};
  if (by_qos && espalier_slurm_each_qos(&QosGrace::look, &qos) != SLURM_SUCCESS) fail("slurm: QOS cannot be asked for");
  partition_info_msg_t* message = nullptr;
  if (slurm_load_partitions(0, &message, SHOW_ALL) != SLURM_SUCCESS)
    fail_to_read("slurm: partitions cannot be asked for", "partitions");
  const Owned<partition_info_msg_t, slurm_free_partition_info_msg> owner(message);
  for (std::uint32_t i = 0; i < message->record_count; ++i)
    site.grace_seconds[text(message->partition_array[i].name)] =
        qos.seconds.value_or(static_cast<int>(message->partition_array[i].grace_time));
  return site;
}

}  // namespace espalier::launcher
