#include "tests/unit/doctor_cases.hpp"

using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

namespace {
constexpr const char* kLine = "PartitionName=elastic";

Finding with(const char* check, void (*breaks)(Partition&)) {
  return after(check, [&](Facts&, Slurm& slurm) { breaks(slurm.partitions[1]); });
}
}  // namespace

TEST_CASE("doctor: a partition for extensions that is not there") {
  Facts facts = healthy();
  facts.slurm.value->partitions.pop_back();
  const Finding found = finding(facts, "partition");
  CHECK(found.verdict == Verdict::fault);
  CHECK(advises(found, kSlurmConf,
                "PartitionName=elastic Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=CANCEL GraceTime=30"));
  for (const char* check : {"partition-nodes", "partition-access", "priority-tier", "preempt-mode", "grace-time"})
    CHECK(finding(facts, check).verdict == Verdict::skipped);
  facts.config.partition = "lent";
  CHECK(says(finding(facts, "partition"), "no partition lent"));
}

TEST_CASE("doctor: a partition that is down, or closed to users") {
  CHECK(with("partition", [](Partition& p) { p.up = false; }).verdict == Verdict::fault);
  CHECK(with("partition-access", [](Partition& p) { p.root_only = true; }).verdict == Verdict::fault);
  CHECK(with("partition-access", [](Partition& p) { p.needs_reservation = true; }).verdict == Verdict::warning);
  const Finding reserved = after("partition-access", [](Facts& facts, Slurm& slurm) {
    slurm.partitions[1].needs_reservation = true;
    facts.config.extension_reservation = "lent";
  });
  CHECK(reserved.verdict == Verdict::ok);
  const Finding found = with("partition-access", [](Partition& p) { p.allow_accounts = "physics"; });
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "AllowAccounts=physics"));
}

TEST_CASE("doctor: nodes that the partition lacks") {
  const Finding some = with("partition-nodes", [](Partition& p) { p.nodes = {"n1"}; });
  CHECK(some.verdict == Verdict::warning);
  CHECK(says(some, "lacks n2"));
  CHECK(advises(some, kSlurmConf, "Nodes=ALL", kLine));
  CHECK(with("partition-nodes", [](Partition& p) { p.nodes = {"login"}; }).verdict == Verdict::fault);
}

TEST_CASE("doctor: MaxTime below the longest lease, and none") {
  const Finding low = with("partition-time", [](Partition& p) { p.max_minutes = 30; });
  CHECK(low.verdict == Verdict::fault);
  CHECK(advises(low, kSlurmConf, "MaxTime=60", kLine));
  CHECK(advises(low, kToml, "max_lease_minutes = 30", "[extensions]"));
  CHECK(with("partition-time", [](Partition& p) { p.max_minutes = 0; }).verdict == Verdict::warning);
}

TEST_CASE("doctor: a PriorityTier that is not below the others'") {
  const Finding same = with("priority-tier", [](Partition& p) { p.priority_tier = 10; });
  CHECK(same.verdict == Verdict::fault);
  CHECK(says(same, "main (10)"));
  CHECK(advises(same, kSlurmConf, "PriorityTier=1", kLine));
  const Finding lowest = after("priority-tier", [](Facts&, Slurm& slurm) { slurm.partitions[0].priority_tier = 1; });
  CHECK(advises(lowest, kSlurmConf, "PriorityTier=10", "PartitionName=main"));
  const Finding apart = after("priority-tier", [](Facts&, Slurm& slurm) {
    slurm.partitions.push_back(slurm.partitions[0]);
    slurm.partitions[2].name = "debug";
    slurm.partitions[2].priority_tier = 1;
    slurm.partitions[2].nodes = {"n9"};
  });
  CHECK(apart.verdict == Verdict::ok);
}

TEST_CASE("doctor: PreemptMode of the partition") {
  CHECK(with("preempt-mode", [](Partition& p) { p.preempt_mode = "OFF"; }).verdict == Verdict::fault);
  CHECK(with("preempt-mode", [](Partition& p) { p.preempt_mode = "SUSPEND"; }).verdict == Verdict::fault);
  CHECK(with("preempt-mode", [](Partition& p) { p.preempt_mode = "REQUEUE"; }).verdict == Verdict::warning);
}

TEST_CASE("doctor: the notice before an extension is killed") {
  CHECK(with("grace-time", [](Partition& p) { p.grace_seconds = 10; }).verdict == Verdict::warning);
  CHECK(with("grace-time", [](Partition& p) { p.grace_seconds = 2; }).verdict == Verdict::fault);
  CHECK(with("grace-time", [](Partition& p) { p.grace_seconds = 0; }).verdict == Verdict::ok);  // KillWait is 30 s
  const Finding none = after("grace-time", [](Facts&, Slurm& slurm) {
    slurm.partitions[1].grace_seconds = 0;
    slurm.settings["KillWait"] = "1 sec";
  });
  CHECK(none.verdict == Verdict::fault);
  CHECK(advises(none, kSlurmConf, "GraceTime=30", kLine));
}
