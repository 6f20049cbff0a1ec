// The facts of a site without fault, and what a test asks of the findings.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor::cases {

inline Facts healthy() {
  Slurm slurm;
  slurm.settings = {{"SLURM_VERSION", "22.05.8"},
                    {"SLURM_CONF", "/etc/slurm/slurm.conf"},
                    {"SlurmctldHost[0]", "ctl(10.0.0.1)"},
                    {"HASH_VAL", "Match"},
                    {"JobSubmitPlugins", "lua,espalier"},
                    {"PluginDir", "/opt/espalier/lib/slurm:/usr/lib/slurm"},
                    {"PreemptType", "preempt/partition_prio"},
                    {"KillWait", "30 sec"},
                    {"SchedulerType", "sched/backfill"},
                    {"SchedulerParameters", "bf_interval=5,bf_continue"},
                    {"SelectType", "select/cons_tres"},
                    {"SelectTypeParameters", "CR_CORE_MEMORY"},
                    {"DefMemPerCPU", "4000"},
                    {"GresTypes", "gpu,mps"},
                    {"ProctrackType", "proctrack/cgroup"},
                    {"TaskPlugin", "task/affinity,task/cgroup"},
                    {"AuthType", "auth/munge"},
                    {"AccountingStorageEnforce", "associations,limits,qos"},
                    {"Prolog", "(null)"},
                    {"PrologEpilogTimeout", "65534"}};
  slurm.cgroup = {{"ConstrainDevices", "yes"}};
  slurm.slurm_user = 64030;
  slurm.library = "22.05.8";
  slurm.partitions = {
      Partition{"main", true, false, false, {"n1", "n2"}, "", "", "", "", "OFF", 10, 0, 0},
      Partition{"elastic", true, false, false, {"n1", "n2"}, "", "", "", "espalier", "CANCEL", 1, 30, 60}};
  slurm.nodes = {Node{"n1", "n1", "n1", "22.05.8", 4, true, 1000, 1100},
                 Node{"n2", "n2", "n2", "22.05.9", 4, true, 1000, 1100}};
  slurm.asked = 5000.2;
  slurm.answered = 5000.3;
  slurm.controller_clock = 5000;

  Plugins plugins;
  plugins.plugstack = "/etc/slurm/plugstack.conf";
  plugins.spank = {PlugstackLine{"/etc/slurm/plugstack.conf",
                                 3,
                                 false,
                                 {"planner=ctl", "max=64", "launcher=/opt/espalier/bin/espalier-launch"},
                                 {"/opt/espalier/lib/slurm/espalier.so", true, 0x160507}}};
  plugins.submit = {"/opt/espalier/lib/slurm/job_submit_espalier.so", true, 0x160508};
  plugins.launcher_there = true;

  Facts facts;
  facts.administrator = true;
  facts.host = "ctl";
  facts.prefix = "/opt/espalier";
  facts.spank_file = "/opt/espalier/lib/slurm/espalier.so";
  facts.submit_file = "/opt/espalier/lib/slurm/job_submit_espalier.so";
  facts.config.path = "/etc/espalier/espalier.toml";
  facts.config.planner_host = "ctl";
  facts.slurm = slurm;
  facts.plugins = plugins;
  facts.srun_knows_elastic = true;
  facts.munge_seconds = 0.01;
  facts.ping = Json{{"version", ESPALIER_VERSION}, {"slurm", "up"}, {"jobs", 2}, {"shadow", false}};
  facts.planner_config =
      Json{{"planner.port", 7321}, {"extensions.partition", "elastic"}, {"network.measured", "2026-11-01T09:00:00Z"}};
  facts.network_ping = facts.ping;
  facts.planner_is_here = true;
  facts.planner_user = 64030;
  facts.state = StateFolder{"/var/lib/espalier", 0700, 64030, 20000, 3};
  for (const char* name :
       {"espalier-launch", "espalier-ranks", "espalier-toy", "espalier-train", "espalier-train-cuda"})
    facts.programs[name] = Program{std::string("/opt/espalier/bin/") + name, true, {}, {}};
  facts.programs["espalier-train"].libraries = {{"libmpi.so.40", "/usr/lib/libmpi.so.40"},
                                                {"libtorch_cpu.so", "/opt/torch/lib/libtorch_cpu.so"}};
  facts.mpi = std::string("Open MPI v4.1.4, package: Debian OpenMPI");
  facts.pmix = std::string("OpenPMIx 4.2.2, more");
  facts.driver_there = true;
  facts.gpus = std::vector<Gpu>{{"NVIDIA H100", "550.54", "Enabled", "Disabled"}};
  return facts;
}

inline Finding finding(const Facts& facts, const std::string& name) {
  for (Finding& found : judge(facts))
    if (found.check == name) return found;
  return {Verdict::skipped, "no such check: " + name, {}, ""};
}

// Some remedy is this line for this file.
inline bool advises(const Finding& finding, const std::string& file, const std::string& line,
                    const std::string& within = "") {
  for (const Remedy& remedy : finding.remedies)
    if (remedy == Remedy{file, line, within}) return true;
  return false;
}
inline bool says(const Finding& finding, const std::string& words) {
  return finding.found.find(words) != std::string::npos;
}

constexpr const char* kSlurmConf = "/etc/slurm/slurm.conf";
constexpr const char* kToml = "/etc/espalier/espalier.toml";

// A broken site: the healthy one after `breaks`.
template <class Break>
Finding after(const char* check, Break breaks) {
  Facts facts = healthy();
  breaks(facts, *facts.slurm.value);
  return finding(facts, check);
}

}  // namespace espalier::cli::doctor::cases
