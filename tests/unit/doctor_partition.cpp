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
  CHECK(lowest.remedies == std::vector<Remedy>{{kSlurmConf, "PriorityTier=0", kLine}});
  const Finding apart = after("priority-tier", [](Facts&, Slurm& slurm) {
    slurm.partitions.push_back(slurm.partitions[0]);
    slurm.partitions[2].name = "debug";
    slurm.partitions[2].priority_tier = 1;
    slurm.partitions[2].nodes = {"n9"};
  });
  CHECK(apart.verdict == Verdict::ok);
}

TEST_CASE("doctor: the other partitions' tiers keep their order") {
  const auto site = [](std::uint32_t batch, std::uint32_t debug, bool has_elastic) {
    return after(has_elastic ? "priority-tier" : "partition", [&](Facts&, Slurm& slurm) {
      if (!has_elastic) slurm.partitions.pop_back();
      slurm.partitions[0].name = "batch";
      slurm.partitions[0].priority_tier = batch;
      slurm.partitions.push_back(slurm.partitions[0]);
      slurm.partitions.back().name = "debug";
      slurm.partitions.back().priority_tier = debug;
    });
  };
  CHECK(site(1, 5, true).remedies == std::vector<Remedy>{{kSlurmConf, "PriorityTier=0", kLine}});
  const Finding zero = site(0, 5, true);
  CHECK(zero.remedies == std::vector<Remedy>{{kSlurmConf, "PriorityTier=0", kLine},
                                             {kSlurmConf, "PriorityTier=1", "PartitionName=batch"},
                                             {kSlurmConf, "PriorityTier=6", "PartitionName=debug"}});
  const Finding none = site(1, 5, false);
  REQUIRE(none.remedies.size() == 1);
  CHECK(none.remedies[0].line.find(" PriorityTier=0 ") != std::string::npos);
  CHECK(site(0, 5, false).remedies.size() == 3);
}

TEST_CASE("doctor: another partition that is preemptable because the cluster's PreemptMode says so") {
  const auto site = [](auto change) {
    return after("other-preemption", [&](Facts&, Slurm& slurm) {
      slurm.partitions.push_back(slurm.partitions[0]);
      slurm.partitions[0].inherits_mode = true;
      slurm.partitions[0].preempt_mode = "CANCEL";
      slurm.partitions[2].name = "debug";
      slurm.partitions[2].priority_tier = 20;
      change(slurm);
    });
  };
  const Finding found = site([](Slurm&) {});
  CHECK(found.verdict == Verdict::warning);
  CHECK(says(found, "debug (PriorityTier 20) may preempt those of main (10)"));
  CHECK(found.remedies == std::vector<Remedy>{{kSlurmConf, "PreemptMode=OFF", "PartitionName=main"}});
  CHECK(site([](Slurm& s) { s.partitions[0].inherits_mode = false; }).verdict == Verdict::ok);
  CHECK(site([](Slurm& s) { s.partitions[2].priority_tier = 10; }).verdict == Verdict::ok);
  CHECK(site([](Slurm& s) { s.partitions[2].nodes = {"n9"}; }).verdict == Verdict::ok);
  CHECK(site([](Slurm& s) { s.settings["PreemptType"] = "preempt/none"; }).verdict == Verdict::ok);
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
