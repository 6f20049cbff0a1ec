// Talks to slurmctld. Nothing else of the daemon does, but slurm_accounting.cpp.
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/topology/topology_text.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/cpu_waits.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/slurm_accounting.hpp"
#include "planner/daemon/slurm_age.hpp"
#include "planner/daemon/slurm_answers.hpp"
#include "planner/daemon/slurm_jobs.hpp"
#include "planner/daemon/slurm_nodes.hpp"
#include "planner/slurm/kill.h"
#include "planner/slurm/site.h"

namespace espalier {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(what + ": " + slurm_strerror(errno) + "; is slurmctld up, and SLURM_CONF right?");
}

template <class Message, void (*Free)(Message*)>
struct Owned {
  Message* message = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (message != nullptr) Free(message);
  }
  Message* operator->() const { return message; }
};

class LibSlurm final : public Slurm {
 public:
  LibSlurm(std::string partition, std::string qos, std::string topology_file)
      : partition_(std::move(partition)), topology_file_(std::move(topology_file)) {
    preemption_.partition = partition_;
    preemption_.extension_qos = std::move(qos);
    slurm_init(nullptr);
  }
  LibSlurm(const LibSlurm&) = delete;
  LibSlurm& operator=(const LibSlurm&) = delete;
  ~LibSlurm() override { slurm_fini(); }

  SlurmSnapshot snapshot() override {
    SlurmSnapshot result;
    result.time = clock_seconds();
    if (is_old(configuration_time_, result.time)) {
      load_configuration();
      load_reservations();
      configuration_time_ = result.time;
    }
    if (topology_times_.due(result.time)) load_topology();
    accounting_.look_at_shares(result.time, accounting_type_);
    result.slurm_user = slurm_user_;
    result.auth_type = auth_type_;
    result.private_jobs = private_jobs_;
    result.reservations = reservations_;
    result.shares = accounting_.shares();
    load_partitions();
    result.partitions = partitions_.by_partition;
    result.extensions_qos = partition_qos_[partition_];
    result.preemption = judge_preemption(preemption_);
    load_nodes(result);
    load_jobs(result);
    assign_owners(result);
    return result;
  }

  SlurmNames names() override {
    SlurmNames result;
    if (!add_account_names(result.accounts)) fail("accounts");
    if (!add_qos_names(result.qos)) fail("QOS");
    Owned<partition_info_msg_t, slurm_free_partition_info_msg> partitions;
    if (slurm_load_partitions(0, &partitions.message, SHOW_ALL) != SLURM_SUCCESS) fail("partitions");
    for (std::uint32_t i = 0; i < partitions->record_count; ++i)
      result.partitions.insert(partitions->partition_array[i].name);
    return result;
  }

  void kill(JobId job) override {
    Owned<job_step_info_response_msg_t, slurm_free_job_step_info_response_msg> steps;
    if (espalier_slurm_get_steps(job, &steps.message) == SLURM_SUCCESS)
      for (std::uint32_t i = 0; i < steps->job_step_count; ++i)
        espalier_slurm_kill_step(job, steps->job_steps[i].step_id.step_id, SIGKILL);
    espalier_slurm_kill_job(job, SIGKILL, KILL_JOB_BATCH);
    if (espalier_slurm_kill_job(job, SIGKILL, 0) != SLURM_SUCCESS) {
      const int code = errno;
      if (code != ESLURM_ALREADY_DONE && code != ESLURM_INVALID_JOB_ID) fail("job " + std::to_string(job));
    }
  }

  void prolong(JobId job, int minutes) override {
    job_desc_msg_t change;
    slurm_init_job_desc_msg(&change);
    std::string name = std::to_string(job);
    change.job_id_str = name.data();
    change.time_limit = static_cast<std::uint32_t>(minutes);
    job_array_resp_msg_t* answer = nullptr;
    const int result = slurm_update_job2(&change, &answer);
    int error = result == SLURM_SUCCESS ? 0 : errno;
    for (std::uint32_t i = 0; answer != nullptr && i < answer->job_array_count; ++i)
      if (answer->error_code[i] != 0) error = static_cast<int>(answer->error_code[i]);
    if (answer != nullptr) slurm_free_job_array_resp(answer);
    errno = error;
    if (error != 0) fail("the time limit of job " + name);
  }

 private:
  void load_configuration() {
    Owned<slurm_conf_t, espalier_slurm_free_conf> conf;
    if (slurm_load_ctl_conf(0, &conf.message) != SLURM_SUCCESS) fail("slurmctld's configuration");
    slurm_user_ = conf->slurm_user_id;
    auth_type_ = conf->authtype == nullptr ? "" : conf->authtype;
    accounting_type_ = conf->accounting_storage_type == nullptr ? "" : conf->accounting_storage_type;
    topology_plugin_ = conf->topology_plugin == nullptr ? "" : conf->topology_plugin;
    private_jobs_ = (conf->private_data & PRIVATE_DATA_JOBS) != 0;
    preemption_.type = conf->preempt_type == nullptr ? "" : conf->preempt_type;
    cluster_mode_ = conf->preempt_mode;
    preemption_.mode = preempt_mode_text(cluster_mode_);
    preemption_.exempt_seconds = espalier_slurm_exempt_seconds(conf.message);
    preemption_.qos.clear();
    // The partition's QOS is known from the first answer on, and its own figures a minute later.
    if (preemption_.type != "preempt/qos" && preemption_.extension_qos.empty() && preemption_.partition_qos.empty())
      return;
    if (!add_every_qos(preemption_.qos)) fail("QOS");
  }

  void load_reservations() {
    Owned<reserve_info_msg_t, slurm_free_reservation_info_msg> answer;
    if (slurm_load_reservations(0, &answer.message) != SLURM_SUCCESS) fail("reservations");
    reservations_.clear();
    for (std::uint32_t i = 0; i < answer->record_count; ++i) {
      const reserve_info_t& record = answer->reservation_array[i];
      const auto names = expand_hosts(record.node_list);
      if (record.name != nullptr)
        reservations_[record.name] = {{names.begin(), names.end()},
                                      static_cast<double>(record.start_time),
                                      static_cast<double>(record.end_time),
                                      record.core_spec_cnt == 0,
                                      (record.flags & RESERVE_FLAG_FLEX) != 0};
    }
  }

  void load_topology() {
    const std::unique_ptr<char, decltype(&std::free)> text(espalier_slurm_topology(), std::free);
    topology_times_.asked(clock_seconds());
    if (told_switches_.take(text.get(), topology_plugin_, clock_seconds())) {
      topology_times_.answered();
    } else if (topology_times_.failed()) {  // decisions are possible without it
      spdlog::warn(
          "the topology cannot be read, and the last one counts: `scontrol show topology` cannot be run, or "
          "slurmctld does not answer it; is slurm-client installed?");
    }
    SwitchPaths switches = told_switches_.switches();
    if (switches.empty() && !topology_file_.empty()) switches = read_topology_file(topology_file_);
    switches_ = std::move(switches);
  }

  void load_partitions() {
    Owned<partition_info_msg_t, slurm_free_partition_info_msg> partitions;
    if (slurm_load_partitions(0, &partitions.message, SHOW_ALL) != SLURM_SUCCESS) fail("partitions");
    partitions_.by_partition.clear();
    partition_qos_.clear();
    tiers_.clear();
    for (std::uint32_t i = 0; i < partitions->record_count; ++i) {
      const partition_info_t& record = partitions->partition_array[i];
      const auto names = expand_hosts(record.nodes);
      auto& nodes = partitions_.by_partition[record.name];
      nodes.insert(names.begin(), names.end());
      partition_qos_[record.name] = record.qos_char == nullptr ? "" : record.qos_char;
      tiers_[record.name] = record.priority_tier;
      if (record.name != partition_) continue;
      preemption_.partition_qos = partition_qos_[record.name];
      extensions_open_ = record.state_up == PARTITION_UP;
      extensions_alone_ = (record.flags & PART_FLAG_EXCLUSIVE_USER) != 0;
      preemption_.partition_mode =
          preempt_mode_text(record.preempt_mode == NO_VAL16 ? cluster_mode_ : record.preempt_mode);
    }
    if (!partitions_.by_partition.contains(partition_))
      throw Error("partition " + partition_ +
                  ": not known to slurmctld; add it to slurm.conf, or set extensions.partition in espalier.toml");
  }

  void load_nodes(SlurmSnapshot& result) {
    Owned<node_info_msg_t, slurm_free_node_info_msg> nodes;
    if (slurm_load_node(0, &nodes.message, SHOW_ALL | SHOW_DETAIL | SHOW_MIXED) != SLURM_SUCCESS) fail("nodes");
    std::set<std::string> names;
    for (std::uint32_t i = 0; i < nodes->record_count; ++i)
      if (nodes->node_array[i].name != nullptr) names.insert(nodes->node_array[i].name);
    // A dynamic node may bring a place in the topology with it.
    if (names != partitions_.all && !partitions_.all.empty()) load_topology();
    partitions_.all = std::move(names);
    gpu_types_.clear();
    features_.clear();
    node_owners_.clear();
    const auto& for_extensions = partitions_.by_partition[partition_];
    for (std::uint32_t i = 0; i < nodes->record_count; ++i) {
      const node_info_t& record = nodes->node_array[i];
      if (record.name == nullptr) continue;
      NodeView view = convert_node(record, switches_);
      view.usable = view.usable && extensions_open_ && for_extensions.contains(view.name);
      result.features[view.name] = active_features(record);
      features_[view.name] = available_features(record);
      if (const auto owner = owner_of(record)) node_owners_[view.name] = *owner;
      gpu_types_[view.name] = gpu_types(record.gres == nullptr ? "" : record.gres);
      result.cluster.nodes.push_back(std::move(view));
    }
    std::sort(result.cluster.nodes.begin(), result.cluster.nodes.end(),
              [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
  }

  // Whether Slurm takes extensions back for this job. It may wait in several partitions.
  bool preempts_for(const SlurmJob& job, const PreemptionRule& rule) const {
    if (!rule.takes_all_back()) return false;
    if (rule.by == PreemptionRule::By::qos) return rule.taken_back_for(job.qos);
    const auto own = tiers_.find(partition_);
    std::istringstream partitions(job.partition);
    for (std::string one; std::getline(partitions, one, ',');)
      if (const auto tier = tiers_.find(one); tier != tiers_.end() && own != tiers_.end() && tier->second > own->second)
        return true;
    return false;
  }

  // Returns the nodes that Slurm keeps from the waiting jobs of other users. Where its partition has ExclusiveUser=YES
  // an extension, too, makes a node its user's, and Slurm preempts nothing on nodes of others: the planner is to take
  // that extension back for them.
  std::map<std::string, uid_t> note_owners(const job_info_msg_t& jobs, SlurmSnapshot& result) const {
    for (const auto& [node, owner] : node_owners_) result.owners[node] = {owner};
    if (!extensions_alone_) return node_owners_;
    std::map<std::string, std::set<uid_t>> others;  // than extensions
    for (std::uint32_t i = 0; i < jobs.record_count; ++i) {
      const slurm_job_info_t& record = jobs.job_array[i];
      add_user(record, result.owners);
      if (record.partition == nullptr || record.partition != partition_) add_user(record, others);
    }
    auto owners = node_owners_;
    std::erase_if(owners, [&](const auto& one) { return !others[one.first].contains(one.second); });
    return owners;
  }

  void load_jobs(SlurmSnapshot& result) {
    Owned<job_info_msg_t, slurm_free_job_info_msg> jobs;
    if (slurm_load_jobs(0, &jobs.message, SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS) fail("jobs");
    NodesForJobs places(partitions_, gpu_types_, features_, reservations_, note_owners(*jobs.message, result));
    CpuWaits without_gpus;
    RunningTasks running;
    for (std::uint32_t i = 0; i < jobs->record_count; ++i) count_running(jobs->job_array[i], running);
    for (std::uint32_t i = 0; i < jobs->record_count; ++i) {
      const slurm_job_info_t& record = jobs->job_array[i];
      SlurmJob job = convert_job(record);
      if (job.state == SlurmJobState::running) job.fair_share = accounting_.fair_share(job);
      accounting_.name_limit_qos(job, partition_qos_, result.time);
      note_cpu_job(record, job, result.cluster);
      const bool preempts = preempts_for(job, result.preemption);
      if (job.partition != partition_ && (job.wanted_gpus > 0 || !preempts) && waits_for_resources(record, result.time))
        if (auto waiting = convert_waiting(record, places, preempts, result.time, running)) {
          if (job.wanted_gpus > 0) result.cluster.waiting.push_back(std::move(*waiting));
          else without_gpus.add(std::move(*waiting));
        }
      if (job.limit != LimitOf::none && job.partition != partition_) result.limited.push_back(job.id);
      result.jobs.insert_or_assign(job.id, std::move(job));
    }
    result.cluster.waiting_for_cpus = without_gpus.first_of_each();
    std::sort(result.limited.begin(), result.limited.end(), [&](JobId a, JobId b) {
      return std::tuple(-result.jobs.at(a).priority, a) < std::tuple(-result.jobs.at(b).priority, b);
    });
    // Jobs that wait for the same limit are served one at a time: the first stands for all.
    std::set<std::tuple<LimitOf, uid_t, std::string, std::string>> limits;
    std::erase_if(result.limited, [&](JobId id) {
      const SlurmJob& one = result.jobs.at(id);
      return !limits.emplace(one.limit, one.uid, one.account, one.limit_qos).second;
    });
    if (std::any_of(result.limited.begin(), result.limited.end(),
                    [&](JobId id) { return result.jobs.at(id).limit == LimitOf::account; }))
      result.accounts = accounting_.accounts(result.time);  // only then: a large site has many associations
  }

  std::string partition_, topology_file_, auth_type_;
  std::string accounting_type_, topology_plugin_;  // AccountingStorageType and TopologyPlugin
  SlurmAccounting accounting_;
  NodesForJobs::Sets gpu_types_, features_;           // by node
  std::map<std::string, std::string> partition_qos_;  // by partition: the QOS that its limits are in, or none
  uid_t slurm_user_ = 0;
  bool private_jobs_ = false;
  PreemptionSettings preemption_;
  std::uint16_t cluster_mode_ = 0;
  std::map<std::string, std::uint16_t> tiers_;  // PriorityTier, by partition
  double configuration_time_ = 0;
  AskingTimes topology_times_;
  bool extensions_open_ = true;
  bool extensions_alone_ = false;             // on a node with no other user's job
  std::map<std::string, uid_t> node_owners_;  // by node, where Slurm keeps it for one user
  ToldSwitches told_switches_;
  SwitchPaths switches_;  // those, or the file's
  std::map<std::string, Reservation> reservations_;
  PartitionNodes partitions_;
};

}  // namespace

std::unique_ptr<Slurm> make_slurm(const std::string& partition, const std::string& qos,
                                  const std::string& topology_file) {
  return std::make_unique<LibSlurm>(partition, qos, topology_file);
}

}  // namespace espalier
