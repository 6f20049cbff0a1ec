// How Slurm schedules, preempts, and counts GPUs; how long it takes to start and to end a job.
#include <algorithm>
#include <charconv>
#include <sstream>

#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr int kGoodBackfillSeconds = 10, kSlurmsBackfillSeconds = 30;

std::string added(const std::string& list, const std::string& word) { return list.empty() ? word : list + "," + word; }

// The cluster's PreemptMode is that of each partition without its own. None of them was preemptable before, and none is
// to become so.
std::vector<Remedy> preempt_by_partition(const Facts& facts, const Slurm& slurm) {
  std::vector<Remedy> remedies{{facts.slurm_conf(), "PreemptType=preempt/partition_prio", ""},
                               {facts.slurm_conf(), "PreemptMode=CANCEL", ""}};
  for (const Partition& other : slurm.partitions)
    if (other.name != facts.config.partition && (other.inherits_mode || other.preempt_mode != "OFF"))
      remedies.push_back({facts.slurm_conf(), "PreemptMode=OFF", "PartitionName=" + other.name});
  return remedies;
}

PreemptionSettings preemption_of(const Facts& facts, const Slurm& slurm) {
  PreemptionSettings site;
  site.type = slurm.setting("PreemptType");
  site.mode = slurm.setting("PreemptMode");
  site.partition = facts.config.partition;
  site.partition_mode = facts.elastic() == nullptr ? "CANCEL" : facts.elastic()->preempt_mode;
  site.extension_qos = facts.config.extension_qos;
  site.qos = slurm.qos;
  site.partition_qos = facts.elastic() == nullptr ? "" : facts.elastic()->qos;
  site.exempt_seconds = slurm.exempt_seconds;
  return site;
}

Finding preempt_type(const Facts& facts, const Slurm& slurm) {
  const PreemptionSettings site = preemption_of(facts, slurm);
  const PreemptionRule rule = judge_preemption(site);
  if (rule.by == PreemptionRule::By::qos) {
    if (rule.lends) return ok(rule.found);
    std::vector<Remedy> remedies;
    const std::string name = site.extension_qos.empty() ? "espalier" : site.extension_qos;
    if (site.extension_qos.empty()) remedies.push_back({facts.config_path(), "qos = \"" + name + "\"", "[extensions]"});
    if (slurm.find_qos(name) == nullptr)
      remedies.push_back(
          command("sacctmgr add qos " + name + " set PreemptMode=cancel GraceTime=00:00:30 UsageFactor=0"));
    else if (!slurm.find_qos(name)->mode.empty() || site.mode.find("CANCEL") == std::string::npos)
      remedies.push_back(command("sacctmgr modify qos " + name + " set PreemptMode=cancel"));
    // Where the site enforces QOS (AccountingStorageEnforce=qos), slurmctld refuses extensions of those who may not use
    // it.
    remedies.push_back(command("sacctmgr modify account root set QOS+=" + name));
    remedies.push_back(command("sacctmgr modify qos normal set Preempt+=" + name));
    return fault(rule.missing.front().substr(0, rule.missing.front().find(';')), remedies);
  }
  if (site.type == "preempt/partition_prio") return ok("PreemptType is " + site.type);
  return fault("PreemptType is " + (site.type.empty() ? "preempt/none" : site.type) +
                   ": Slurm takes no extension back, and other jobs wait for espalierd",
               preempt_by_partition(facts, slurm));
}

// Slurm preempts nothing younger, so that espalierd does not leave extensions to Slurm then.
Finding exempt_time(const Facts& facts, const Slurm& slurm) {
  const PreemptionSettings site = preemption_of(facts, slurm);
  const PreemptionRule rule = judge_preemption(site);
  if (rule.by == PreemptionRule::By::nobody) return ok("Slurm takes no extension back, whatever its age");
  if (rule.exempt_seconds == 0) return ok("Slurm may preempt an extension from its start (PreemptExemptTime)");
  std::vector<Remedy> remedies;
  const auto exempt = [&](const std::string& name) {
    remedies.push_back(command("sacctmgr modify qos " + name + " set PreemptExemptTime=0"));
  };
  for (const Qos& one : slurm.qos)
    if ((one.name == site.extension_qos || one.name == site.partition_qos) && one.exempt_seconds > 0) exempt(one.name);
  const std::string& own = site.partition_qos.empty() ? site.extension_qos : site.partition_qos;
  if (remedies.empty() && slurm.find_qos(own) != nullptr) exempt(own);  // it goes before the cluster's
  if (remedies.empty()) remedies.push_back({facts.slurm_conf(), "PreemptExemptTime=0", ""});
  return warning("Slurm preempts no extension in its first " + std::to_string(rule.exempt_seconds) +
                     " s (PreemptExemptTime): jobs that wait for its GPUs get them later, and only by espalierd",
                 remedies);
}

bool lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// Slurm looks at DenyQos only where there is no AllowQos (slurm.conf(5)).
bool may_use(const Partition& partition, const std::string& qos) {
  return partition.allow_qos.empty() ? !lists(partition.deny_qos, qos) : lists(partition.allow_qos, qos);
}

// What keeps it out of a partition that it may use, and nobody else.
std::string without(const Partition& partition, const std::string& qos) {
  if (partition.allow_qos.empty()) return "DenyQos=" + added(partition.deny_qos, qos);
  std::string left;
  std::istringstream names(partition.allow_qos);
  for (std::string one; std::getline(names, one, ',');)
    if (one != qos) left = added(left, one);
  // An empty list would let every QOS in.
  return left.empty() ? "AllowQos=ALL DenyQos=" + qos : "AllowQos=" + left;
}

Finding extension_qos(const Facts& facts, const Slurm& slurm) {
  const std::string& name = facts.config.extension_qos;
  if (name.empty()) return ok("extensions have no QOS of their own: each user's default one");
  const Qos* qos = slurm.find_qos(name);
  if (qos == nullptr)
    return fault("slurmctld knows no QOS " + name + ", which [extensions] qos names: it refuses every extension",
                 {command("sacctmgr add qos " + name), command("sacctmgr modify account root set QOS+=" + name)});
  if (qos->usage_factor > 0)
    return ok("QOS " + name + " charges extensions (UsageFactor=" + std::to_string(qos->usage_factor).substr(0, 4) +
              "); where they shall cost nothing: sacctmgr modify qos " + name + " set UsageFactor=0");
  std::string open;
  std::vector<Remedy> remedies;
  for (const Partition& other : slurm.partitions) {
    if (other.name == facts.config.partition || !may_use(other, name)) continue;
    open += (open.empty() ? "" : ", ") + other.name;
    remedies.push_back({facts.slurm_conf(), without(other, name), "PartitionName=" + other.name});
  }
  if (!open.empty())
    return warning("QOS " + name + " charges nothing (UsageFactor=0), and jobs of any kind may use it in partition " +
                       open + ": with --qos=" + name + " users are not charged there, either",
                   remedies);
  return ok("QOS " + name + " charges nothing for extensions (UsageFactor=0)");
}

Finding kill_wait(const Facts& facts, const Slurm& slurm) {
  const auto wait = slurm.number("KillWait");
  if (!wait) return skipped("slurmctld does not tell KillWait");
  const long ours = facts.config.kill_wait_seconds;
  if (*wait <= ours)
    return ok("KillWait is " + std::to_string(*wait) + " s, espalierd counts on " + std::to_string(ours) + " s");
  return fault("KillWait is " + std::to_string(*wait) + " s, espalierd counts on " + std::to_string(ours) +
                   " s: leases end too late for the jobs that wait for their GPUs",
               {{facts.config_path(), "kill_wait_seconds = " + std::to_string(*wait), "[extensions]"}});
}

Finding backfill(const Facts& facts, const Slurm& slurm) {
  const std::string type = slurm.setting("SchedulerType"), parameters = slurm.setting("SchedulerParameters");
  if (type != "sched/backfill")
    return fault("SchedulerType is " + type + ": extensions are leases, which backfill grants while bigger jobs wait",
                 {{facts.slurm_conf(), "SchedulerType=sched/backfill", ""}});
  int seconds = kSlurmsBackfillSeconds;
  constexpr std::string_view kKey = "bf_interval=";
  const auto at = ("," + parameters).find("," + std::string(kKey));
  const bool given = at != std::string::npos;
  if (given) std::from_chars(parameters.data() + at + kKey.size(), parameters.data() + parameters.size(), seconds);
  const std::string found = "backfill looks every " + std::to_string(seconds) + " s";
  if (seconds <= kGoodBackfillSeconds) return ok(found);
  std::string right = parameters;
  if (given) right.replace(at, std::min(right.find(',', at), right.size()) - at, "bf_interval=10");
  else right = added(right, "bf_interval=10");
  return warning(found + ": where jobs wait, an extension is granted that late",
                 {{facts.slurm_conf(), "SchedulerParameters=" + right, ""}});
}

Finding select_type(const Facts& facts, const Slurm& slurm) {
  const std::string type = slurm.setting("SelectType");
  const Remedy remedy{facts.slurm_conf(), "SelectType=select/cons_tres", ""};
  if (type == "select/cons_tres") return ok("SelectType is " + type);
  if (type == "select/cons_res")
    return warning("SelectType is " + type + ", which knows no --gpus and which Slurm has dropped since", {remedy});
  return fault("SelectType is " + type + ": a node goes to one job as a whole, and its idle GPUs to nobody", {remedy});
}

Finding gres(const Facts& facts, const Slurm& slurm) {
  const std::string types = slurm.setting("GresTypes");
  if (("," + types + ",").find(",gpu,") != std::string::npos) return ok("GresTypes is " + types);
  return fault(types.empty() ? "GresTypes is not set: Slurm counts no GPUs" : "GresTypes is " + types + ", without gpu",
               {{facts.slurm_conf(), "GresTypes=" + added(types, "gpu"), ""}});
}

Finding memory(const Facts& facts, const Slurm& slurm) {
  if (slurm.setting("SelectTypeParameters").find("MEMORY") == std::string::npos)
    return ok("memory is not what Slurm allocates");
  for (const char* name : {"DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"}) {
    const std::string value = slurm.setting(name);
    if (!value.empty() && value != "UNLIMITED" && value != "0") return ok(std::string(name) + " is " + value);
  }
  if (slurm.setting("JobDefaults").find("DefMemPerGPU") != std::string::npos) return ok("JobDefaults has DefMemPerGPU");
  return warning("a job that asks for no memory takes all of its node, and nothing beside it can grow",
                 {{facts.slurm_conf(), "DefMemPerCPU=4000", ""}});
}

Finding prolog(const Facts& facts, const Slurm& slurm) {
  std::string programs;
  for (const char* name : {"Prolog", "PrologSlurmctld", "Prolog[0]", "PrologSlurmctld[0]"})
    if (const std::string program = slurm.setting(name); !program.empty())
      programs += (programs.empty() ? "" : ", ") + std::string(name) + "=" + program;
  if (programs.empty()) return ok("there is no Prolog");
  auto limit = slurm.number("PrologTimeout");
  if (!limit) limit = slurm.number("PrologEpilogTimeout");
  const int acquire = facts.config.acquire_seconds;
  if (limit && *limit < acquire)
    return ok(programs + " for at most " + std::to_string(*limit) + " s, of the " + std::to_string(acquire) +
              " s that an extension may take to start");
  return warning(programs + (limit ? " may take " + std::to_string(*limit) + " s" : " has no time limit") +
                     "; an extension that has not started after " + std::to_string(acquire) + " s is cancelled",
                 {{facts.slurm_conf(), "PrologEpilogTimeout=" + std::to_string(std::max(acquire - 5, 1)), ""},
                  {facts.config_path(), "acquire_seconds = " + std::to_string(limit ? *limit + 20 : 60), "[launch]"}});
}

Finding epilog(const Facts& facts, const Slurm& slurm) {
  std::string programs;
  for (const char* name : {"Epilog", "EpilogSlurmctld", "Epilog[0]", "EpilogSlurmctld[0]"})
    if (const std::string program = slurm.setting(name); !program.empty())
      programs += (programs.empty() ? "" : ", ") + std::string(name) + "=" + program;
  if (programs.empty()) return ok("there is no Epilog");
  auto limit = slurm.number("EpilogTimeout");
  if (!limit) limit = slurm.number("PrologEpilogTimeout");
  if (limit) return ok(programs + " for at most " + std::to_string(*limit) + " s");
  return warning(programs + " has no time limit: GPUs that are given back stay with their job until it has ended",
                 {{facts.slurm_conf(),
                   "PrologEpilogTimeout=" + std::to_string(std::max(facts.config.acquire_seconds - 5, 1)), ""}});
}

}  // namespace

std::span<const Check> scheduling_checks() {
  static const Check table[] = {
      {"preempt-type", Audience::administrator, preempt_type},
      {"preempt-exempt-time", Audience::administrator, exempt_time},
      {"extension-qos", Audience::administrator, extension_qos},
      {"kill-wait", Audience::administrator, kill_wait},
      {"backfill", Audience::administrator, backfill},
      {"select-type", Audience::administrator, select_type},
      {"gres-types", Audience::administrator, gres},
      {"default-memory", Audience::administrator, memory},
      {"prolog", Audience::administrator, prolog},
      {"epilog", Audience::administrator, epilog},
  };
  return table;
}

}  // namespace espalier::cli::doctor
