// /etc/espalier/espalier.toml. Unknown keys, wrong types and values out of range are Errors that name file, line and
// key.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "planner/core/schedule/objective.hpp"
#include "planner/core/share_rules.hpp"
#include "planner/core/topology/hardware_overrides.hpp"

namespace espalier::wire {

// What `espalier calibrate` wrote. Keys as "network.nic_gb_s".
struct Calibrated {
  std::string path;                 // empty: there is no such file, or it was not asked for
  std::set<std::string> used;       // keys in force
  std::set<std::string> overruled;  // keys that espalier.toml gives, too
  std::string problem;              // why nothing of the file is used; empty: all is well
  bool operator==(const Calibrated&) const = default;
};

struct Config {
  std::string path;  // where it was read from; empty: defaults

  // [planner]
  std::string planner_host = "localhost";  // host of espalierd
  std::uint16_t planner_port = 7321;
  std::string run_dir = "/run/espalier";        // control.sock, events.sock
  std::string state_dir = "/var/lib/espalier";  // espalier.db
  std::string log_level = "info";
  double poll_seconds = 2;  // how often Slurm is asked what no event told
  double cooldown_seconds = 10;
  double lambda = 1;  // the threshold on marginal benefits is U^lambda
  double trade = 2;
  double migrate_gain = 1.1;
  double trial_percent = 5;
  int plan_trials = 3;
  double hysteresis = 0.1;
  double least_gain = 1.02;
  double idle_seconds = 300;  // how long idle GPUs are expected to stay idle
  bool idle_forecast = true;  // or as long as submissions of the recent past say
  bool reclaim = true;        // also without a waiting job, when the cluster fills
  std::string policy = "espalier";
  bool share_profiles = false;  // one user's measurements count for the jobs of others
  int store_mb = 512;           // what the decision store keeps of jobs
  std::string topology_file;    // read where Slurm itself tells no switches; empty: none

  // [flextrain]: of the policies flextrain and flextrain-dp (FlexTrain §5.1)
  double flextrain_most_times = 4;           // most GPUs of a job, as a multiple of its own
  double flextrain_least_probability = 0.6;  // that GPUs stay idle for long enough
  double flextrain_window_hours = 8;         // submissions of these hours are looked at
  int flextrain_least_gpus = 32;             // and only those of so many GPUs or more

  int arena_search_depth = 10;  // [arena]: most doublings and type switches in one decision (Arena §3.5)

  // [extensions]
  std::string partition = "elastic";
  std::string extension_qos;  // empty: Slurm's choice
  // Empty: as the anchor has them.
  std::string extension_constraint, extension_reservation, extension_account;
  std::string extension_comment;  // behind Espalier's own words
  int max_gpus = 64;              // site's limit per job
  int max_lease_minutes = 60;
  int kill_wait_seconds = 30;

  ShareRules share;  // [share]

  Objective objective;                 // [objective]; kind is of policy espalier alone
  bool refuses_late_deadlines = true;  // late_deadlines: a job that cannot keep its deadline does not start

  // [health]
  std::string health_command;        // program that checks nodes before their GPUs are lent; empty: there is none
  int health_timeout_seconds = 30;   // the program is ended after this time
  double health_valid_minutes = 10;  // how long its answer counts
  bool health_gpu_errors = true;     // the errors of GPUs are looked at before ranks run on them

  // [profiling]: of jobs that wait, stage by stage
  int profiling_gpus = 4;      // most GPUs at a time; 0: none
  int profiling_per_user = 2;  // of them, most of one user
  int profiling_minutes = 10;  // time limit of a profile job

  // [launch]
  std::string network;        // CIDR for control sockets and MPI, e.g. "10.77.0.0/16"; empty: MPI's default
  int protocol_seconds = 60;  // a program that does not say hello by then runs on without elasticity
  int start_seconds = 60;     // a generation not ready by then is given up
  double plan_seconds = 2;    // generation 0 waits so long for the planner's plan
  double wide_seconds = 5;    // and so long for extensions that the planner adds to it; 0: none are taken
  int acquire_seconds = 20;   // an extension not granted by then is cancelled
  bool spares = true;         // keep processes of the program that have loaded their libraries, for the next change
  int switch_seconds = 60;    // a hand-off not done by then is aborted
  int hang_seconds = 600;     // a training that did no step for so long is taken for lost
  std::string base_partition =
      {};                        // of bases of movable jobs that are submitted to a partition without GPUs; empty: none
  int node_setup_seconds = 120;  // the program that prepares a node for ranks (node_setup=) may take so long
  double adoption_minutes = 10;  // how long keepers of a movable job hold its base without a launcher
  double heartbeat_seconds = 1;  // of keepers and workers; ten missed ones mean loss
  std::string work_dir;          // per-generation directories; empty: $TMPDIR or /tmp

  // [metrics]
  std::string metrics_address = "127.0.0.1:7322";  // ADDRESS:PORT of espalierd's metrics; empty: none are served
  int metrics_jobs = 1000;                         // jobs that have series of their own

  HardwareOverrides hardware;  // [network], [gpu.NAME]
  Calibrated calibrated;

  bool operator==(const Config&) const = default;
};

// `path` empty: $ESPALIER_CONF, else ESPALIER_CONFIG if it exists, else defaults. An explicitly named missing file is
// an Error.
Config load_config(const std::string& path = "");

// The same on the planner's host: with [network] and [gpu.NAME] of the file that `espalier calibrate` wrote, for keys
// that espalier.toml does not give. That file being unreadable is no Error; Config::calibrated tells.
Config load_planner_config(const std::string& path = "");

// The file that `espalier calibrate` writes and espalierd reads.
std::string calibrated_path(const Config& config);

}  // namespace espalier::wire
