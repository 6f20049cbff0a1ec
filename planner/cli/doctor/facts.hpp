// What `espalier doctor` knows of a site. It is gathered first (gather.hpp) and judged then (checks.hpp), so that every
// judgement can be tested on made-up facts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/json.hpp"
#include "planner/core/preemption.hpp"
#include "planner/wire/config.hpp"

namespace espalier::cli::doctor {

// A value, or the reason why there is none.
template <class T>
struct Learned {
  std::optional<T> value;
  std::string why = "was not looked at";
  Learned() = default;
  Learned(T known) : value(std::move(known)) {}
  static Learned unknown(std::string reason) {
    Learned learned;
    learned.why = std::move(reason);
    return learned;
  }
  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
};

struct Partition {
  std::string name;
  bool up = true, root_only = false, needs_reservation = false;
  std::vector<std::string> nodes;
  std::string allow_accounts, allow_groups, allow_qos;  // empty: all
  std::string qos;                                      // of the partition; empty: none
  std::string preempt_mode = "CANCEL";                  // in force: its own, or the cluster's
  std::uint32_t priority_tier = 1;
  std::uint32_t grace_seconds = 0;
  std::uint32_t max_minutes = 0;  // 0: no limit
  std::string deny_qos = {};
  bool inherits_mode = false;  // preempt_mode is the cluster's
};

struct Node {
  std::string name, hostname, address, version;
  int gpus = 0;
  bool usable = true;      // not down and not drained
  std::int64_t boot = 0;   // by slurmctld's clock, seconds since the epoch; 0: not known
  std::int64_t start = 0;  // of slurmd, by the node's own clock
};

// slurmctld's answers.
struct Slurm {
  std::map<std::string, std::string> settings;  // as `scontrol show config` names and writes them
  std::map<std::string, std::string> cgroup;    // empty: slurmctld does not read cgroup.conf
  std::uint32_t slurm_user = 0;
  std::string library;  // release of libslurm that this program loads, as in "22.05.8"
  std::vector<Partition> partitions;
  std::vector<Node> nodes;
  std::vector<Qos> qos;              // empty: the site has no accounting
  std::uint32_t exempt_seconds = 0;  // PreemptExemptTime of the cluster
  // Seconds since the epoch: this host's clock before and after the question, slurmctld's between them (whole seconds).
  double asked = 0, answered = 0, controller_clock = 0;

  const Qos* find_qos(const std::string& name) const;
  // "" where it is absent, "(null)" or "N/A".
  std::string setting(const std::string& name) const;
  // The number in front, as in "30 sec"; nullopt where there is none, and for Slurm's words and numbers for no limit.
  std::optional<long> number(const std::string& name) const;
};

struct PluginFile {
  std::string path;
  bool exists = false;
  std::optional<std::uint32_t> built_for;  // SLURM_VERSION_NUMBER; nullopt: it does not tell
};

// A line of plugstack.conf, or of a file that it includes.
struct PlugstackLine {
  std::string file;
  int line = 0;
  bool required = false;
  std::vector<std::string> arguments;
  PluginFile plugin;
};

struct Plugins {
  std::string plugstack;             // path of plugstack.conf
  std::vector<PlugstackLine> spank;  // the lines that name espalier.so
  std::vector<PlugstackLine> pyxis;  // and spank_pyxis.so
  PluginFile submit;                 // job_submit_espalier.so; path empty: in no folder of PluginDir
  bool launcher_there = false;       // the launcher of the first line is an executable file on this host

  // The value of "NAME=value" in the first line of `spank`; nullopt: not given.
  std::optional<std::string> argument(const std::string& name) const;
};

// A program of ours and the libraries that it loads.
struct Program {
  std::string path;
  bool exists = false;
  std::vector<std::string> missing;              // libraries that are not found
  std::map<std::string, std::string> libraries;  // "libmpi.so.40": path
};

struct StateFolder {
  std::string path;
  mode_t mode = 0;
  uid_t owner = 0;
  std::uint64_t free_mb = 0;   // for SlurmUser
  std::uint64_t store_mb = 0;  // what the store has of the disk
};

struct Gpu {
  std::string name, driver, persistence, mig;  // as nvidia-smi writes them
};

struct Facts {
  bool administrator = false;
  std::string host;                     // this host's name, without domain
  std::string prefix;                   // where Espalier is installed, as in "/opt/espalier"
  std::string spank_file, submit_file;  // the plugins of this installation
  wire::Config config;
  std::string config_problem;  // empty: espalier.toml was read, or there is none
  bool config_there = true;    // false: the defaults hold

  Learned<Slurm> slurm;
  Learned<Plugins> plugins;
  Learned<bool> srun_knows_elastic;
  Learned<double> munge_seconds;  // one credential, made and opened
  Learned<Json> ping;             // espalierd's answers
  Learned<Json> planner_config;
  Learned<Json> network_ping;    // the same by TCP, as launchers connect
  bool planner_is_here = false;  // espalierd's socket is on this host
  std::optional<uid_t> planner_user;
  Learned<StateFolder> state;
  std::map<std::string, Program> programs;  // "espalier-train": ...
  Learned<std::string> mpi, pmix;           // as the libraries describe themselves
  std::string mpi_interfaces;               // btl_tcp_if_include in Open MPI's system-wide file; empty: not set
  Learned<std::vector<Gpu>> gpus;
  bool driver_there = false;  // a driver's device files, or nvidia-smi
  Learned<std::map<std::string, std::vector<std::string>>>
      addresses;  // IPv4, by node; only where launch.network is set

  // nullptr: slurmctld did not answer, or has no such partition.
  const Partition* elastic() const;
  std::string config_path() const;     // where a line for espalier.toml goes
  std::string slurm_conf() const;      // where a line for slurm.conf goes
  std::string plugstack_path() const;  // where a line for plugstack.conf goes
  // The host that launchers should ask for espalierd: as configured, or slurmctld's where that is this host only.
  std::string planner_host() const;
  bool is_node() const;  // this host is one of Slurm's nodes
};

// "22.05.8" of SLURM_VERSION_NUMBER.
std::string version_text(std::uint32_t number);
// "22.05" of "22.05.8".
std::string release_of(const std::string& version);
// Whether a host's name means the host that asks, wherever that is.
bool is_loopback(const std::string& host);

}  // namespace espalier::cli::doctor
