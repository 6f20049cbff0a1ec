// Asks slurmctld. In a child process: libslurm ends the process that it is in when slurm.conf is missing or wrong.
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/doctor/gather.hpp"
#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/slurm/accounting.h"
#include "planner/slurm/settings.h"
#include "planner/slurm/site.h"

namespace espalier {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Qos, name, preempts, mode, grace_seconds, usage_factor, exempt_seconds)
}

namespace espalier::cli::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Partition, name, up, root_only, needs_reservation, nodes, allow_accounts,
                                   allow_groups, allow_qos, qos, preempt_mode, priority_tier, grace_seconds,
                                   max_minutes, deny_qos, inherits_mode)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Node, name, hostname, address, version, gpus, usable, boot, start)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Slurm, settings, cgroup, slurm_user, library, partitions, nodes, qos, exempt_seconds,
                                   asked, answered, controller_clock)

namespace {

constexpr double kSeconds = 40;  // four questions, each for MessageTimeout at most

[[noreturn]] void fail(const char* what) { throw Error(std::string(what) + ": " + slurm_strerror(errno)); }

double now() {
  timeval time{};
  ::gettimeofday(&time, nullptr);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::string text(const char* chars) { return chars == nullptr ? "" : chars; }
// "ALL" and nothing both mean that everybody may.
std::string restriction(const char* chars) { return text(chars) == "ALL" ? "" : text(chars); }

std::map<std::string, std::string> read_settings(char* printed) {
  const std::unique_ptr<char, decltype(&std::free)> owner(printed, std::free);
  std::map<std::string, std::string> settings;
  const std::string all = text(printed);
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    const std::string line = all.substr(begin, end - begin);
    begin = end + 1;
    const auto equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    settings[line.substr(0, line.find_last_not_of(' ', equals) + 1)] = line.substr(equals + 3);
  }
  return settings;
}

std::string mode_text(std::uint16_t mode) {
  std::string words;
  const auto add = [&](std::uint16_t bit, const char* word) {
    if ((mode & bit) != 0) words += (words.empty() ? "" : ",") + std::string(word);
  };
  add(PREEMPT_MODE_SUSPEND, "SUSPEND");
  add(PREEMPT_MODE_REQUEUE, "REQUEUE");
  add(PREEMPT_MODE_CANCEL, "CANCEL");
  return words.empty() ? "OFF" : words;
}

Partition partition_of(const partition_info_t& from, std::uint16_t cluster_mode) {
  Partition partition;
  partition.name = text(from.name);
  partition.up = from.state_up == PARTITION_UP;
  partition.root_only = (from.flags & PART_FLAG_ROOT_ONLY) != 0;
  partition.needs_reservation = (from.flags & PART_FLAG_REQ_RESV) != 0;
  partition.nodes = expand_hosts(from.nodes);
  partition.allow_accounts = restriction(from.allow_accounts);
  partition.allow_groups = restriction(from.allow_groups);
  partition.allow_qos = restriction(from.allow_qos);
  partition.deny_qos = text(from.deny_qos);
  partition.qos = text(from.qos_char);
  partition.inherits_mode = from.preempt_mode == NO_VAL16;
  partition.preempt_mode = mode_text(partition.inherits_mode ? cluster_mode : from.preempt_mode);
  partition.priority_tier = from.priority_tier;
  partition.grace_seconds = from.grace_time;
  partition.max_minutes = from.max_time == INFINITE || from.max_time == NO_VAL ? 0 : from.max_time;
  return partition;
}

void add_qos(void* list, const espalier_qos* from) {
  Qos qos{from->name,
          {},
          from->preempt_mode == 0 ? "" : mode_text(from->preempt_mode),
          from->grace_seconds,
          from->usage_factor,
          from->exempt_seconds};
  const std::string names = from->preempts;
  for (std::size_t begin = 0, comma; (comma = names.find(',', begin)) != std::string::npos; begin = comma + 1)
    qos.preempts.insert(names.substr(begin, comma - begin));
  static_cast<std::vector<Qos>*>(list)->push_back(std::move(qos));
}

Node node_of(const node_info_t& from) {
  Node node;
  node.name = text(from.name);
  node.hostname = text(from.node_hostname);
  node.address = text(from.node_addr);
  node.version = text(from.version);
  try {
    node.gpus = parse_gpu_gres(text(from.gres)).count;
  } catch (const Error&) {
    node.gpus = 0;  // unreadable: espalierd counts none, either
  }
  constexpr std::uint32_t kAway = NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_NO_RESPOND;
  const std::uint32_t base = from.node_state & NODE_STATE_BASE;
  node.usable = (from.node_state & kAway) == 0 && base != NODE_STATE_DOWN && base != NODE_STATE_UNKNOWN;
  node.boot = from.boot_time;
  node.start = from.slurmd_start_time;
  return node;
}

Slurm ask() {
  slurm_init(nullptr);
  Slurm slurm;
  slurm.library = version_text(SLURM_VERSION_NUMBER);  // the library of another release has another name
  slurm.asked = now();
  slurm_conf_t* conf = nullptr;
  if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) fail("configuration");
  const std::unique_ptr<slurm_conf_t, decltype(&espalier_slurm_free_conf)> owner(conf, espalier_slurm_free_conf);
  slurm.answered = now();
  slurm.controller_clock = static_cast<double>(conf->last_update);
  slurm.slurm_user = conf->slurm_user_id;
  slurm.exempt_seconds = espalier_slurm_exempt_seconds(conf);
  slurm.settings = read_settings(espalier_slurm_settings(conf));
  slurm.cgroup = read_settings(espalier_slurm_cgroup_settings(conf));

  if (espalier_slurm_each_qos(&add_qos, &slurm.qos) != SLURM_SUCCESS) fail("QOS");

  partition_info_msg_t* partitions = nullptr;
  if (slurm_load_partitions(0, &partitions, SHOW_ALL) != SLURM_SUCCESS) fail("partitions");
  for (std::uint32_t i = 0; i < partitions->record_count; ++i)
    slurm.partitions.push_back(partition_of(partitions->partition_array[i], conf->preempt_mode));
  slurm_free_partition_info_msg(partitions);

  node_info_msg_t* nodes = nullptr;
  if (slurm_load_node(0, &nodes, SHOW_ALL) != SLURM_SUCCESS) fail("nodes");
  for (std::uint32_t i = 0; i < nodes->record_count; ++i)
    if (nodes->node_array[i].name != nullptr) slurm.nodes.push_back(node_of(nodes->node_array[i]));
  slurm_free_node_info_msg(nodes);
  return slurm;
}

}  // namespace

Learned<Slurm> gather_slurm() {
  const Bounded reply =
      call_bounded([] { return Json(ask()).dump(-1, ' ', false, Json::error_handler_t::replace); }, kSeconds);
  if (!reply.succeeded()) return Learned<Slurm>::unknown(reply.problem());
  try {
    return Json::parse(reply.output).get<Slurm>();
  } catch (const Json::exception& error) {
    return Learned<Slurm>::unknown(std::string("its answer cannot be read: ") + error.what());
  }
}

}  // namespace espalier::cli::doctor
