#include "tests/unit/doctor_cases.hpp"

using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

TEST_CASE("doctor: settings as scontrol writes them") {
  Slurm slurm;
  slurm.settings = {{"A", "(null)"}, {"B", "N/A"}, {"C", "30 sec"}, {"D", "65534"}, {"E", "UNLIMITED"}};
  CHECK(slurm.setting("A").empty());
  CHECK(slurm.setting("B").empty());
  CHECK(slurm.setting("Z").empty());
  CHECK(slurm.number("C") == 30);
  CHECK(!slurm.number("D"));
  CHECK(!slurm.number("E"));
  CHECK(version_text(0x160508) == "22.05.8");
  CHECK(release_of("22.05.8") == "22.05");
  CHECK(release_of("26.05.0-1") == "26.05");
  CHECK(is_loopback("localhost"));
  CHECK(is_loopback("127.0.1.1"));
  CHECK(!is_loopback("ctl"));
}

TEST_CASE("doctor: releases of libslurm and of slurmd") {
  auto found = after("libslurm", [](Facts&, Slurm& slurm) { slurm.library = "21.08.3"; });
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "21.08.3"));
  found = after("slurmd-versions", [](Facts&, Slurm& slurm) { slurm.nodes[1].version = "21.08.8"; });
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "21.08.8 on n2"));
}

TEST_CASE("doctor: slurm.conf that differs from slurmctld's") {
  const auto found =
      after("slurm.conf", [](Facts&, Slurm& slurm) { slurm.settings["HASH_VAL"] = "Different Ours=0x1"; });
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "Different"));
}

TEST_CASE("doctor: nodes with GPUs, and those that cannot be used") {
  auto found = after("nodes", [](Facts&, Slurm& slurm) { slurm.nodes[1].usable = false; });
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "n2"));
  found = after("nodes", [](Facts&, Slurm& slurm) { slurm.nodes[0].usable = slurm.nodes[1].usable = false; });
  CHECK(found.verdict == Verdict::fault);
  found = after("nodes", [](Facts&, Slurm& slurm) { slurm.nodes[0].gpus = slurm.nodes[1].gpus = 0; });
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "no node has GPUs"));
}

TEST_CASE("doctor: slurmctld's clock against this host's, to the second that it tells") {
  const auto with = [](double controller) {
    return after("clock", [&](Facts&, Slurm& slurm) { slurm.controller_clock = controller; });
  };
  CHECK(with(4998).verdict == Verdict::ok);
  CHECK(with(5002).verdict == Verdict::ok);
  CHECK(with(5010).verdict == Verdict::warning);
  CHECK(says(with(5010), "10 s ahead"));
  CHECK(with(4989).verdict == Verdict::warning);
  CHECK(says(with(4989), "10 s behind"));
  CHECK(with(5200).verdict == Verdict::fault);
  CHECK(with(4700).verdict == Verdict::fault);
}

TEST_CASE("doctor: clocks of nodes, as far as they are known") {
  auto found = after("node-clocks", [](Facts&, Slurm& slurm) { slurm.nodes[0].start = 5100; });
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "n1 ahead"));
  found = after("node-clocks", [](Facts&, Slurm& slurm) { slurm.nodes[1].start = 900; });
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "n2 behind"));
  found = after("node-clocks", [](Facts&, Slurm& slurm) { slurm.nodes.clear(); });
  CHECK(found.verdict == Verdict::skipped);
}

TEST_CASE("doctor: how Slurm preempts, backfills and counts") {
  const auto with = [](const char* check, const char* name, const char* value) {
    return after(check, [&](Facts&, Slurm& slurm) { slurm.settings[name] = value; });
  };
  for (const char* type : {"preempt/none", "(null)"}) {
    const Finding found = with("preempt-type", "PreemptType", type);
    CHECK(found.verdict == Verdict::fault);
    CHECK(advises(found, kSlurmConf, "PreemptType=preempt/partition_prio"));
  }
  const Finding by_partition = after("preempt-type", [](Facts&, Slurm& slurm) {
    slurm.settings["PreemptType"] = "preempt/none";
    slurm.partitions.push_back(slurm.partitions[0]);
    slurm.partitions[2].name = "debug";
    slurm.partitions[2].inherits_mode = true;
  });
  CHECK(advises(by_partition, kSlurmConf, "PreemptMode=CANCEL"));
  CHECK(advises(by_partition, kSlurmConf, "PreemptMode=OFF", "PartitionName=debug"));
  CHECK_FALSE(advises(by_partition, kSlurmConf, "PreemptMode=OFF", "PartitionName=main"));  // it has that already
  CHECK_FALSE(advises(by_partition, kSlurmConf, "PreemptMode=OFF", "PartitionName=elastic"));
  Finding found = with("kill-wait", "KillWait", "120 sec");
  CHECK(found.verdict == Verdict::fault);
  CHECK(advises(found, kToml, "kill_wait_seconds = 120", "[extensions]"));
  CHECK(with("kill-wait", "KillWait", "10 sec").verdict == Verdict::ok);
  CHECK(with("backfill", "SchedulerType", "sched/builtin").verdict == Verdict::fault);
  found = with("backfill", "SchedulerParameters", "bf_continue,bf_interval=60,defer");
  CHECK(found.verdict == Verdict::warning);
  CHECK(advises(found, kSlurmConf, "SchedulerParameters=bf_continue,bf_interval=10,defer"));
  found = with("backfill", "SchedulerParameters", "(null)");
  CHECK(advises(found, kSlurmConf, "SchedulerParameters=bf_interval=10"));
  CHECK(with("select-type", "SelectType", "select/linear").verdict == Verdict::fault);
  CHECK(with("select-type", "SelectType", "select/cons_res").verdict == Verdict::warning);
  found = with("gres-types", "GresTypes", "mps");
  CHECK(found.verdict == Verdict::fault);
  CHECK(advises(found, kSlurmConf, "GresTypes=mps,gpu"));
  CHECK(with("gres-types", "GresTypes", "(null)").verdict == Verdict::fault);
  CHECK(with("default-memory", "DefMemPerCPU", "UNLIMITED").verdict == Verdict::warning);
  CHECK(with("auth-type", "AuthType", "auth/slurm").verdict == Verdict::warning);
}

TEST_CASE("doctor: extensions that Slurm does not preempt while they are young") {
  const auto with = [](std::uint32_t cluster, std::int64_t qos) {
    return after("preempt-exempt-time", [&](Facts&, Slurm& slurm) {
      slurm.exempt_seconds = cluster;
      slurm.qos = {espalier::Qos{"espalier", {}, "", 0, 1, qos}};
    });
  };
  CHECK(with(0, -1).verdict == Verdict::ok);
  CHECK(with(600, 0).verdict == Verdict::ok);
  for (const Finding& found : {with(600, -1), with(0, 600)}) {
    CHECK(found.verdict == Verdict::warning);
    CHECK(says(found, "in its first 600 s"));
    CHECK(advises(found, "", "sacctmgr modify qos espalier set PreemptExemptTime=0"));
  }
  const Finding alone = after("preempt-exempt-time", [](Facts&, Slurm& slurm) { slurm.exempt_seconds = 60; });
  CHECK(advises(alone, kSlurmConf, "PreemptExemptTime=0"));
}

TEST_CASE("doctor: prologs and epilogs with and without a limit") {
  const auto with = [](const char* check, const char* program, const char* limit) {
    return after(check, [&](Facts&, Slurm& slurm) {
      slurm.settings[program] = "/etc/slurm/script";
      slurm.settings["PrologEpilogTimeout"] = limit;
    });
  };
  CHECK(with("prolog", "Prolog", "10").verdict == Verdict::ok);
  CHECK(with("prolog", "Prolog[0]", "300").verdict == Verdict::warning);
  CHECK(says(with("prolog", "Prolog", "65534"), "no time limit"));
  CHECK(advises(with("prolog", "Prolog", "65534"), kSlurmConf, "PrologEpilogTimeout=15"));
  CHECK(advises(with("prolog", "Prolog", "300"), kToml, "acquire_seconds = 320", "[launch]"));
  CHECK(with("epilog", "Epilog", "300").verdict == Verdict::ok);
  CHECK(with("epilog", "Epilog", "65534").verdict == Verdict::warning);
  CHECK(with("epilog", "Prolog", "65534").verdict == Verdict::ok);
}

TEST_CASE("doctor: what keeps jobs apart") {
  const auto with = [](const char* check, const char* name, const char* value) {
    return after(check, [&](Facts&, Slurm& slurm) { slurm.settings[name] = value; });
  };
  CHECK(with("process-tracking", "ProctrackType", "proctrack/linuxproc").verdict == Verdict::warning);
  CHECK(advises(with("task-plugin", "TaskPlugin", "task/none"), kSlurmConf, "TaskPlugin=task/affinity,task/cgroup"));
  CHECK(
      advises(with("task-plugin", "TaskPlugin", "task/affinity"), kSlurmConf, "TaskPlugin=task/affinity,task/cgroup"));
  CHECK(with("constrain-devices", "TaskPlugin", "task/affinity").verdict == Verdict::skipped);
  const Finding found = after("constrain-devices", [](Facts&, Slurm& s) { s.cgroup["ConstrainDevices"] = "no"; });
  CHECK(found.verdict == Verdict::warning);
  CHECK(advises(found, "/etc/slurm/cgroup.conf", "ConstrainDevices=yes"));
}

TEST_CASE("doctor: preemption by QOS") {
  const auto site = [](const char* check, const auto& breaks) {
    return after(check, [&](Facts& facts, Slurm& slurm) {
      slurm.settings["PreemptType"] = "preempt/qos";
      slurm.settings["PreemptMode"] = "CANCEL";
      facts.config.extension_qos = "lent";
      slurm.qos = {espalier::Qos{"lent", {}, "", 30, 0}, espalier::Qos{"normal", {"lent"}, "", 0, 1}};
      breaks(facts, slurm);
    });
  };
  const auto as_it_is = [](Facts&, Slurm&) {};
  Finding found = site("preempt-type", as_it_is);
  CHECK(found.verdict == Verdict::ok);
  CHECK(says(found, "QOS normal may take extensions (QOS lent) back"));
  found = site("preempt-type", [](Facts& facts, Slurm&) { facts.config.extension_qos.clear(); });
  CHECK(found.verdict == Verdict::fault);
  CHECK(advises(found, kToml, "qos = \"espalier\"", "[extensions]"));
  found = site("preempt-type", [](Facts&, Slurm& slurm) { slurm.qos[1].preempts.clear(); });
  CHECK(found.verdict == Verdict::fault);
  CHECK(says(found, "no QOS may preempt QOS lent"));
  CHECK(site("preempt-type", [](Facts&, Slurm& slurm) { slurm.qos[0].mode = "SUSPEND"; }).verdict == Verdict::fault);
  // Tiers and modes of partitions do not count then.
  CHECK(site("priority-tier", [](Facts&, Slurm& slurm) { slurm.partitions[1].priority_tier = 10; }).verdict ==
        Verdict::ok);
  CHECK(site("preempt-mode", [](Facts&, Slurm& slurm) { slurm.partitions[1].preempt_mode = "OFF"; }).verdict ==
        Verdict::ok);
  found = site("grace-time", [](Facts&, Slurm& slurm) { slurm.qos[0].grace_seconds = 2; });
  CHECK(found.verdict == Verdict::fault);
  CHECK(site("grace-time", [](Facts&, Slurm& slurm) { slurm.partitions[1].grace_seconds = 2; }).verdict == Verdict::ok);
  found = site("extension-qos", as_it_is);
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "in partition main"));
  CHECK(advises(found, kSlurmConf, "DenyQos=lent", "PartitionName=main"));
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.partitions[0].deny_qos = "idle,lent"; });
  CHECK(found.verdict == Verdict::ok);
  CHECK(says(found, "charges nothing"));
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.partitions[0].deny_qos = "lent2"; });
  CHECK(found.verdict == Verdict::warning);
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.partitions[0].allow_qos = "normal"; });
  CHECK(found.verdict == Verdict::ok);
  // Slurm does not look at DenyQos then.
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.partitions[0].allow_qos = "high,lent,normal"; });
  CHECK(found.remedies == std::vector<Remedy>{{kSlurmConf, "AllowQos=high,normal", "PartitionName=main"}});
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.partitions[0].deny_qos = "idle,low"; });
  CHECK(found.remedies == std::vector<Remedy>{{kSlurmConf, "DenyQos=idle,low,lent", "PartitionName=main"}});
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.partitions[0].allow_qos = "lent"; });
  CHECK(advises(found, kSlurmConf, "AllowQos=ALL DenyQos=lent", "PartitionName=main"));
  found = site("extension-qos", [](Facts&, Slurm& slurm) { slurm.qos[0].usage_factor = 0.5; });
  CHECK(says(found, "UsageFactor=0.50"));
  CHECK(site("extension-qos", [](Facts&, Slurm& slurm) { slurm.qos.clear(); }).verdict == Verdict::fault);
}
