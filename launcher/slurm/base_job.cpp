#include "launcher/slurm/base_job.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "launcher/slurm/job_update.hpp"
#include "launcher/slurm/libslurm.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/slurm/job_record.h"
#include "planner/slurm/node_state.h"
#include "planner/wire/stage_queries.hpp"

namespace espalier::launcher {
namespace {

long minutes_until(std::time_t ends) { return std::max<std::time_t>((ends - std::time(nullptr)) / 60, 1); }

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

std::string base_comment(JobId submitted, const std::string& nonce) {
  return "espalier:base:" + std::to_string(submitted) + ":" + nonce;
}

namespace {

struct Partition {
  std::set<std::string> nodes;
  long minutes = 0;
};

Partition load_partition(const std::string& name) {
  initialize();
  partition_info_msg_t* partitions = nullptr;
  if (slurm_load_partitions(0, &partitions, SHOW_ALL) != SLURM_SUCCESS)
    fail_to_read("slurm: partitions cannot be asked for", "partitions");
  const Owned<partition_info_msg_t, slurm_free_partition_info_msg> owner(partitions);
  for (std::uint32_t i = 0; i < partitions->record_count; ++i) {
    const partition_info_t& info = partitions->partition_array[i];
    if (text(info.name) != name) continue;
    const auto nodes = expand_hosts(info.nodes);
    return {{nodes.begin(), nodes.end()}, info.max_time == INFINITE || info.max_time == NO_VAL ? 0 : info.max_time};
  }
  throw Error("slurm: there is no partition \"" + name + "\"");
}

// GPUs of this type that a job could get now.
int idle_of(const node_info_t& node, const std::string& type) {
  if (espalier_slurm_takes_work(node.node_state) == 0) return 0;
  return gpu_counts(text(node.gres))[type] - gpu_counts(text(node.gres_used))[type];
}

}  // namespace

long partition_minutes(const std::string& partition) { return load_partition(partition).minutes; }

std::vector<NodeCapacity> partition_nodes(const std::string& partition) {
  const std::set<std::string> names = load_partition(partition).nodes;
  node_info_msg_t* message = nullptr;
  if (slurm_load_node(0, &message, SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS)
    fail_to_read("slurm: nodes cannot be asked for", "nodes");
  const Owned<node_info_msg_t, slurm_free_node_info_msg> owner(message);
  std::vector<NodeCapacity> nodes;
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    const node_info_t& info = message->node_array[i];
    if (!names.contains(text(info.name))) continue;
    const std::string gres = text(info.gres);
    const GpuGres gpus = parse_gpu_gres(gres);
    const auto lent = lent_type(gres);
    const auto counts = gpu_counts(gres);
    const auto reserved = info.mem_spec_limit == NO_VAL64 ? 0 : info.mem_spec_limit;
    const auto memory = info.real_memory > reserved ? info.real_memory - reserved : 0;
    nodes.push_back({info.name, lent.value_or(gpus.type), lent ? counts.at(*lent) : 0, info.cpus_efctv,
                     static_cast<long>(memory), counts.size() > 1, lent ? idle_of(info, *lent) : 0});
  }
  return nodes;
}

namespace {

// The type that a request for GPUs on these nodes has to name, since one of them has several; else empty.
std::string type_to_name(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes)
    if (const std::string gres = gres_of(node); gpu_counts(gres).size() > 1) return lent_type(gres).value_or("");
  return "";
}

}  // namespace

void keep_within(const SlurmJob& base, std::time_t ends) {
  if (base.state != SlurmJob::State::pending) return;
  if (base.beyond_partition) {
    const long most = partition_minutes(base.partition);
    if (most != 0 && (base.limit_minutes == 0 || base.limit_minutes > most)) return lower_time_limit(base.id, most);
  }
  if (ends == 0 || base.limit_minutes == 0) return;
  const long left = minutes_until(ends);
  if (base.limit_minutes - left >= std::clamp(left / 20, 1L, 5L)) lower_time_limit(base.id, left);
}

JobId submit_base(const BaseJob& job) {
  initialize();
  job_desc_msg_t description;
  slurm_init_job_desc_msg(&description);
  std::string name = job.name, partition = job.partition, qos = job.qos, account = job.account, comment = job.comment;
  std::string wckey = job.wckey;
  std::string script = job.script, directory = job.directory, null = "/dev/null", reservation = job.reservation;
  std::string only = joined(job.only), excluded = job.only.empty() ? joined(job.shape.excluded) : "";
  std::string type = job.shape.type;
  if (type.empty() && !job.only.empty()) type = type_to_name(job.only);
  std::string tres = "gres:gpu:" + (type.empty() ? "" : type + ":") + std::to_string(job.shape.gpus_per_node);
  std::vector<std::string> variables = job.environment;
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  description.name = name.data();
  description.partition = partition.data();
  if (!qos.empty()) description.qos = qos.data();
  if (!account.empty()) description.account = account.data();
  if (!reservation.empty()) description.reservation = reservation.data();
  if (!wckey.empty()) description.wckey = wckey.data();
  if (job.nice > 0) description.nice = NICE_OFFSET + static_cast<std::uint32_t>(job.nice);
  std::string cluster = job.cluster;
  if (!cluster.empty()) description.clusters = cluster.data();
  description.comment = comment.data();
  if (!only.empty()) description.req_nodes = only.data();
  if (!excluded.empty()) description.exc_nodes = excluded.data();
  const auto nodes = static_cast<std::uint32_t>(job.shape.nodes);
  const auto cpus = static_cast<std::uint32_t>(job.shape.cpus_per_node);
  description.min_nodes = description.max_nodes = nodes;
  description.num_tasks = nodes;
  description.ntasks_per_node = 1;
  description.cpus_per_task = static_cast<std::uint16_t>(std::min(cpus, 65000u));
  description.min_cpus = nodes * cpus;
  description.tres_per_node = tres.data();
  description.pn_min_memory = static_cast<std::uint64_t>(job.shape.memory_mb_per_node);
  description.time_limit = job.ends > 0 ? static_cast<std::uint32_t>(minutes_until(job.ends)) : INFINITE;
  if (job.deadline > 0) description.deadline = job.deadline;
  description.requeue = 0;
  description.kill_on_node_fail = 0;  // training goes on without a node of the base
  description.user_id = getuid();
  description.group_id = getgid();
  description.work_dir = directory.data();
  description.script = script.data();
  description.environment = environment.data();
  description.env_size = static_cast<std::uint32_t>(variables.size());
  description.std_in = description.std_out = description.std_err = null.data();
  description.immediate = job.immediate ? 1 : 0;
  submit_response_msg_t* answer = nullptr;
  if (slurm_submit_batch_job(&description, &answer) != SLURM_SUCCESS)
    fail("slurm: a base of " + std::to_string(job.shape.nodes) + " nodes with " +
         std::to_string(job.shape.gpus_per_node) + " GPUs each refused");
  const Owned<submit_response_msg_t, slurm_free_submit_response_response_msg> owner(answer);
  return espalier_slurm_submitted_id(answer);
}

namespace {

// This user's jobs that wait or run, whose comment begins so; the oldest first.
std::vector<SlurmJob> jobs_marked(const std::string& mark) {
  initialize();
  job_info_msg_t* message = nullptr;
  if (slurm_load_job_user(&message, getuid(), SHOW_ALL) != SLURM_SUCCESS) fail("slurm: jobs cannot be asked for");
  const Owned<job_info_msg_t, slurm_free_job_info_msg> owner(message);
  std::vector<JobId> ids;
  for (std::uint32_t i = 0; i < message->record_count; ++i)
    if (text(message->job_array[i].comment).starts_with(mark))
      ids.push_back(espalier_slurm_job_id(&message->job_array[i]));
  std::sort(ids.begin(), ids.end());
  std::vector<SlurmJob> jobs;
  for (const JobId id : ids)
    if (auto job = load_job(id); job && job->uid == getuid() &&
                                 (job->state == SlurmJob::State::pending || job->state == SlurmJob::State::running))
      jobs.push_back(std::move(*job));
  return jobs;
}

}  // namespace

std::vector<SlurmJob> bases_of(JobId submitted) { return jobs_marked(base_comment(submitted, "")); }

std::vector<SlurmJob> extensions_of(JobId submitted) {
  auto jobs = jobs_marked("espalier:ext:" + std::to_string(submitted) + ":");
  // Profile jobs of a job that waits to run again are marked so, too, and are nobody's extension.
  std::erase_if(jobs, [](const SlurmJob& job) { return !wire::profiled_type(job.comment).empty(); });
  return jobs;
}

}  // namespace espalier::launcher
