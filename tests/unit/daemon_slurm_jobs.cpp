// Slurm's records of pending jobs: which jobs wait for GPUs, and which are left to Slurm's own
// preemption.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/daemon/cpu_waits.hpp"
#include "planner/daemon/slurm_jobs.hpp"
#include "planner/daemon/slurm_nodes.hpp"

using namespace espalier;

namespace {

// From Slurm 26.05 on the record holds a step id.
template <class Record>
void set_id(Record& record, std::uint32_t id) {
  if constexpr (requires { record.job_id; }) record.job_id = id;
  else record.step_id.job_id = id;
}

struct Pending {
  std::string tres = "gres:gpu:2", partition = "main";
  slurm_job_info_t record{};
  Pending() {
    set_id(record, 7);
    record.job_state = JOB_PENDING;
    record.state_reason = WAIT_RESOURCES;
    record.priority = 100;
    record.num_nodes = 1;
    record.num_tasks = 1;
    record.eligible_time = 1000;
    record.sockets_per_node = NO_VAL16;
    record.shared = NO_VAL16;
    record.tres_per_node = tres.data();
    record.partition = partition.data();
  }
};

// On a cluster of which nothing is known.
WaitingJob waiting_of(const slurm_job_info_t& record, bool slurm_preempts, double now) {
  const PartitionNodes partitions;
  const NodesForJobs::Sets none;
  const std::map<std::string, Reservation> reservations;
  NodesForJobs nodes(partitions, none, none, reservations);
  return convert_waiting(record, nodes, slurm_preempts, now).value();
}

}  // namespace

TEST_CASE("a pending job waits for resources unless something else keeps it") {
  Pending job;
  CHECK(waits_for_resources(job.record, 1001));
  for (const auto reason : {WAIT_NO_REASON, WAIT_PRIORITY, WAIT_NODE_NOT_AVAIL}) {
    job.record.state_reason = reason;
    CHECK(waits_for_resources(job.record, 1001));
  }
  for (const auto reason : {WAIT_DEPENDENCY, WAIT_HELD, WAIT_ASSOC_JOB_LIMIT}) {
    job.record.state_reason = reason;
    CHECK_FALSE(waits_for_resources(job.record, 1001));
  }
  std::string why = "ReqNodeNotAvail, Reserved for maintenance";
  job.record.state_reason = WAIT_NODE_NOT_AVAIL;
  job.record.state_desc = why.data();
  CHECK_FALSE(waits_for_resources(job.record, 1001));
  why = "ReqNodeNotAvail, UnavailableNodes:n1";
  CHECK(waits_for_resources(job.record, 1001));
  job.record.state_desc = nullptr;
  job.record.state_reason = WAIT_RESOURCES;
  CHECK_FALSE(waits_for_resources(job.record, 999));  // --begin
  job.record.priority = 0;
  CHECK_FALSE(waits_for_resources(job.record, 1001));
  job.record.priority = 1;
  job.record.job_state = JOB_RUNNING;
  CHECK_FALSE(waits_for_resources(job.record, 1001));
  job.record.job_state = JOB_PENDING;
  job.record.tres_per_node = nullptr;
  CHECK(waits_for_resources(job.record, 1001));
  CHECK(convert_job(job.record).wanted_gpus == 0);
}

TEST_CASE("a pending job's CPUs and memory are those that it needs at least of each node") {
  Pending job;
  job.record.num_nodes = 2;
  job.record.num_cpus = 9;
  job.record.pn_min_cpus = 2;
  job.record.pn_min_memory = 3000;
  job.record.shared = NO_VAL16;
  auto waiting = waiting_of(job.record, false, 1001);
  CHECK(waiting.cpus == 4);
  CHECK(waiting.memory_mb == 3000);
  CHECK_FALSE(waiting.whole_nodes);
  job.record.pn_min_cpus = 8;
  job.record.pn_min_memory = MEM_PER_CPU | 100;
  job.record.shared = JOB_SHARED_NONE;
  waiting = waiting_of(job.record, false, 1001);
  CHECK(waiting.cpus == 8);
  CHECK(waiting.memory_mb == 800);
  CHECK(waiting.whole_nodes);
  job.record.pn_min_memory = NO_VAL64;
  CHECK(waiting_of(job.record, false, 1001).memory_mb == 0);
  for (const std::uint64_t all : {std::uint64_t{0}, std::uint64_t{MEM_PER_CPU}}) {  // as with --mem=0
    job.record.pn_min_memory = all;
    CHECK(waiting_of(job.record, false, 1001).memory_mb < 0);
  }
  std::string for_gpus = "gres:gpu:4096";  // --mem-per-gpu
  job.record.mem_per_tres = for_gpus.data();
  CHECK(waiting_of(job.record, false, 1001).memory_mb == 0);
}

TEST_CASE("a job without GPUs that names one of its nodes waits for that one") {
  Pending job;
  std::string named = "n7";
  job.record.num_nodes = 2;
  job.record.req_nodes = named.data();
  CHECK(waiting_of(job.record, false, 1001).only_nodes.empty());
  job.record.tres_per_node = nullptr;
  CHECK(waiting_of(job.record, false, 1001).only_nodes == NodeList{"n7"});
}

TEST_CASE("a node on which a job runs without a GPU is known") {
  Pending job;
  std::string nodes = "n[1-2]", gpus = "gpu:2(IDX:0-1)", none;
  std::vector<char*> detail{gpus.data(), none.data()};
  job.record.job_state = JOB_RUNNING;
  job.record.nodes = nodes.data();
  job.record.num_nodes = 2;
  job.record.gres_detail_cnt = 2;
  job.record.gres_detail_str = detail.data();
  ClusterView cluster;
  for (const char* name : {"n1", "n2", "n3"}) cluster.nodes.emplace_back().name = name;
  const auto noted = [&] {
    for (NodeView& node : cluster.nodes) node.cpu_jobs = false;
    note_cpu_job(job.record, convert_job(job.record), cluster);
    return std::vector<bool>{cluster.nodes[0].cpu_jobs, cluster.nodes[1].cpu_jobs, cluster.nodes[2].cpu_jobs};
  };
  CHECK(noted() == std::vector<bool>{false, true, false});
  job.record.gres_detail_cnt = 0;
  CHECK(noted() == std::vector<bool>{true, true, false});
  job.record.job_state = JOB_COMPLETE;
  CHECK(noted() == std::vector<bool>{false, false, false});
}

TEST_CASE("of jobs that wait for the same CPUs the one counts that keeps extensions away the longest") {
  CpuWaits waits;
  const NodeList nodes{"n1"};
  const auto add = [&](JobId id, int cpus, const NodeList& where, std::optional<double> start, int count = 1) {
    WaitingJob job;
    job.id = id;
    job.nodes = count;
    job.cpus = cpus;
    job.only_nodes = where;
    job.expected_start = start;
    waits.add(job);
  };
  add(1, 4, nodes, 3000);
  add(2, 4, nodes, 2000);
  add(3, 4, nodes, 2500);
  add(4, 8, nodes, 4000);
  add(5, 4, {}, 3000);
  add(6, 4, {}, std::nullopt);
  add(7, 4, {}, 1000);
  add(8, 4, {}, 5000, 2);
  std::set<JobId> kept;
  for (const WaitingJob& job : waits.first_of_each()) kept.insert(job.id);
  CHECK(kept == std::set<JobId>{2, 4, 6, 8});
  for (int i = 0; i < 1000; ++i) add(100 + i, 4, NodeList{"n" + std::to_string(i)}, std::nullopt);
  CHECK(waits.first_of_each().size() == 256);
  add(9, 4, nodes, std::nullopt);  // one that counts already
  const auto all = waits.first_of_each();
  CHECK(std::any_of(all.begin(), all.end(), [](const WaitingJob& job) { return job.id == 9; }));
}

TEST_CASE("a new job is left to Slurm, whatever reason it has, for five seconds where Slurm preempts") {
  Pending job;
  for (const auto reason : {WAIT_NO_REASON, WAIT_PRIORITY, WAIT_RESOURCES}) {
    job.record.state_reason = reason;
    CHECK(waiting_of(job.record, true, 1004.9).left_to_slurm);
    CHECK_FALSE(waiting_of(job.record, true, 1005).left_to_slurm);
    CHECK_FALSE(waiting_of(job.record, false, 1001).left_to_slurm);
  }
  const auto waiting = waiting_of(job.record, true, 1004.9);
  CHECK(waiting.id == 7);
  CHECK(waiting.gpus == 2);
  CHECK(waiting.nodes == 1);
  CHECK(waiting.priority == 100);
}

TEST_CASE("a job that names no GPUs asks for those that its tasks share") {
  Pending job;
  job.record.tres_per_node = nullptr;
  job.record.num_tasks = 8;
  job.record.ntasks_per_tres = NO_VAL16;
  CHECK(convert_job(job.record).wanted_gpus == 0);
  job.record.ntasks_per_tres = 4;
  CHECK(waiting_of(job.record, false, 1001).gpus == 2);
  job.record.tres_per_node = job.tres.data();
  job.record.num_nodes = 2;
  CHECK(waiting_of(job.record, false, 1001).gpus == 4);
}

TEST_CASE("PreemptMode in words") {
  CHECK(preempt_mode_text(PREEMPT_MODE_CANCEL | PREEMPT_MODE_GANG) == "CANCEL");
  CHECK(preempt_mode_text(PREEMPT_MODE_REQUEUE) == "REQUEUE");
  CHECK(preempt_mode_text(PREEMPT_MODE_SUSPEND | PREEMPT_MODE_GANG) == "SUSPEND");
  CHECK(preempt_mode_text(PREEMPT_MODE_OFF) == "OFF");
}

TEST_CASE("the limit of several jobs that a job waits for") {
  Pending job;
  job.record.user_id = 1000;
  std::string account = "physics", qos = "normal";
  job.record.account = account.data();
  job.record.qos = qos.data();
  const auto limit = [&](job_state_reason reason) {
    job.record.state_reason = reason;
    return convert_job(job.record).limit;
  };
  CHECK(limit(WAIT_QOS_GRP_GRES) == LimitOf::qos);
  CHECK(limit(WAIT_QOS_MAX_GRES_PER_USER) == LimitOf::user_in_qos);
  CHECK(limit(WAIT_QOS_MAX_GRES_PER_ACCT) == LimitOf::account_in_qos);
  CHECK(limit(WAIT_ASSOC_GRP_GRES) == LimitOf::account);
  CHECK(limit(WAIT_ASSOC_MAX_JOBS) == LimitOf::user_in_account);
  // Minutes that running jobs still have, those of extensions too.
  CHECK(limit(WAIT_QOS_GRP_GRES_RUN_MIN) == LimitOf::qos);
  CHECK(limit(WAIT_ASSOC_GRP_CPU_RUN_MIN) == LimitOf::account);
  // A limit of the job alone, and one that grows with time, are not made easier by another job's end.
  for (const auto reason :
       {WAIT_QOS_MAX_GRES_PER_JOB, WAIT_QOS_GRP_GRES_MIN, WAIT_ASSOC_GRP_GRES_MIN, WAIT_RESOURCES, WAIT_HELD})
    CHECK(limit(reason) == LimitOf::none);
  job.record.priority = 0;  // held
  CHECK(limit(WAIT_QOS_GRP_GRES) == LimitOf::none);
  const SlurmJob converted = convert_job(job.record);
  CHECK(converted.account == "physics");
  CHECK(converted.qos == "normal");
}

TEST_CASE("a job that Slurm has looked at for a while and expects to start later starts later") {
  Pending job;
  job.record.start_time = 5000;
  CHECK_FALSE(waiting_of(job.record, true, 1074).starts_later);  // a guess as yet
  CHECK(waiting_of(job.record, true, 1075).starts_later);
  CHECK(waiting_of(job.record, true, 1075).slurm_preempts);
  CHECK_FALSE(waiting_of(job.record, false, 1075).starts_later);  // extensions may be what it waits for
  CHECK_FALSE(waiting_of(job.record, false, 1075).slurm_preempts);
  CHECK_FALSE(waiting_of(job.record, true, 4950).starts_later);  // in a moment
  job.record.start_time = 0;
  CHECK_FALSE(waiting_of(job.record, true, 1075).starts_later);  // Slurm does not tell
}

TEST_CASE("in a federation a job that another cluster runs waits for nothing here") {
  Pending job;
  job.record.state_reason = WAIT_QOS_GRP_GRES;
  CHECK(convert_job(job.record).limit == LimitOf::qos);
  job.record.job_state = JOB_PENDING | JOB_REVOKED;
  CHECK(convert_job(job.record).limit == LimitOf::none);
  job.record.state_reason = WAIT_RESOURCES;
  CHECK_FALSE(waits_for_resources(job.record, 1001));
}

TEST_CASE("a waiting job may have the nodes of its partitions with its GPU types, its features and its reservation") {
  using Names = std::vector<std::string>;
  const PartitionNodes partitions{{{"main", {"n1", "n2", "n3", "n4"}}, {"large", {"n5"}}},
                                  {"n1", "n2", "n3", "n4", "n5", "n6"}};
  const NodesForJobs::Sets types{
      {"n1", {"h100"}}, {"n2", {"a100", "h100"}}, {"n3", {"a100"}}, {"n4", {}}, {"n5", {"h100"}}};
  const NodesForJobs::Sets features{{"n1", {"ib"}}, {"n2", {"ib", "big"}}, {"n3", {"big"}}, {"n4", {}}, {"n5", {"ib"}}};
  const std::map<std::string, Reservation> reservations{{"course", {{"n3", "n4"}, 0, 1, true}},
                                                        {"other", {{"n1"}, 0, 1, true}},
                                                        {"flexible", {{"n1"}, 0, 1, true, true}}};
  NodesForJobs nodes(partitions, types, features, reservations);
  Pending job;
  const auto allowed = [&](std::string partition, std::string gres, std::string constraint = "",
                           std::string reservation = "") {
    job.record.partition = partition.data();
    job.record.tres_per_node = gres.data();
    job.record.features = constraint.empty() ? nullptr : constraint.data();
    job.record.resv_name = reservation.empty() ? nullptr : reservation.data();
    return convert_waiting(job.record, nodes, false, 1010).value().only_nodes;
  };
  CHECK(allowed("main", "gres:gpu:2") == Names{"n1", "n2", "n3", "n4"});
  CHECK(allowed("main", "gres:gpu:h100:2") == Names{"n1", "n2"});
  CHECK(allowed("main,large", "gres:gpu:h100:2") == Names{"n1", "n2", "n5"});
  CHECK(allowed("main", "gres:gpu:a100:1,gres:gpu:h100:1") == Names{"n1", "n2", "n3"});
  CHECK(allowed("main", "gres:gpu:2", "big") == Names{"n2", "n3"});
  CHECK(allowed("main", "gres:gpu:2", "ib|big") == Names{"n1", "n2", "n3"});
  CHECK(allowed("main", "gres:gpu:h100:2", "big") == Names{"n2"});
  CHECK(allowed("main", "gres:gpu:2", "", "course") == Names{"n3", "n4"});
  CHECK(allowed("main", "gres:gpu:2", "", "course,other") == Names{"n1", "n3", "n4"});
  CHECK(allowed("main", "gres:gpu:2", "", "unheard") == Names{"n1", "n2", "n3", "n4"});
  CHECK(allowed("main", "gres:gpu:2", "", "flexible") == Names{"n1", "n2", "n3", "n4"});
  CHECK(allowed("main", "gres:gpu:2", std::string(300, 'b')) == Names{"n1", "n2", "n3", "n4"});  // too long to be read
  // Not understood: as if it had not been asked for.
  CHECK(allowed("main", "gres:gpu:b200:2") == Names{"n1", "n2", "n3", "n4"});
}

TEST_CASE("nodes that a waiting job excludes") {
  const PartitionNodes partitions{{{"main", {"n1", "n2"}}}, {"n1", "n2", "n3"}};
  const NodesForJobs::Sets types{{"n1", {"h100"}}, {"n2", {"a100"}}}, none;
  const std::map<std::string, Reservation> reservations;
  NodesForJobs nodes(partitions, types, none, reservations);
  Pending job;
  std::string gres = "gres:gpu:h100:2", excluded = "n1", required = "n2";
  job.record.tres_per_node = gres.data();
  CHECK(convert_waiting(job.record, nodes, false, 1010)->only_nodes == std::vector<std::string>{"n1"});
  // What it asks for was understood too narrowly: never every node of the cluster.
  job.record.exc_nodes = excluded.data();
  CHECK(convert_waiting(job.record, nodes, false, 1010)->only_nodes == std::vector<std::string>{"n2"});
  excluded = "n[1-2]";
  job.record.exc_nodes = excluded.data();
  CHECK_FALSE(convert_waiting(job.record, nodes, false, 1010));
  job.record.req_nodes = required.data();
  CHECK(convert_waiting(job.record, nodes, false, 1010)->only_nodes == std::vector<std::string>{"n2"});
}

TEST_CASE("nodes that Slurm keeps for one user are not counted for the waiting jobs of others") {
  const PartitionNodes partitions{{{"main", {"n1", "n2"}}, {"small", {"n1"}}}, {"n1", "n2", "n3"}};
  const NodesForJobs::Sets none;
  const std::map<std::string, Reservation> reservations;
  NodesForJobs nodes(partitions, none, none, reservations, {{"n1", 1001}});
  using Names = std::vector<std::string>;
  Pending job;
  const auto allowed = [&](uid_t uid) {
    job.record.user_id = uid;
    return convert_waiting(job.record, nodes, false, 1010);
  };
  REQUIRE(allowed(1000));
  CHECK(allowed(1000)->only_nodes == Names{"n2"});
  CHECK(allowed(1001)->only_nodes == Names{"n1", "n2"});
  CHECK(allowed(1000)->only_nodes.identity() == allowed(1002)->only_nodes.identity());
  std::string excluded = "n2", required = "n1", partition = "small";
  job.record.exc_nodes = excluded.data();
  CHECK_FALSE(allowed(1000));
  CHECK(allowed(1001)->only_nodes == Names{"n1"});
  job.record.exc_nodes = nullptr;
  job.record.req_nodes = required.data();
  CHECK_FALSE(allowed(1000));
  CHECK(allowed(1001)->only_nodes == Names{"n1"});
  job.record.req_nodes = nullptr;
  job.record.partition = partition.data();
  CHECK_FALSE(allowed(1000));  // never every node of the cluster
  CHECK(allowed(1001)->only_nodes == Names{"n1"});
}

TEST_CASE("to whom Slurm has given a node, and who has jobs on it") {
  node_info_t node{};
  node.owner = NO_VAL;
  CHECK_FALSE(owner_of(node));
  node.owner = 1001;
  CHECK(owner_of(node) == uid_t{1001});
  Pending job;
  std::string names = "n[1-2]";
  job.record.nodes = names.data();
  job.record.user_id = 1000;
  std::map<std::string, std::set<uid_t>> users;
  add_user(job.record, users);
  CHECK(users.empty());
  job.record.job_state = JOB_SUSPENDED;
  add_user(job.record, users);
  job.record.user_id = 1001;
  job.record.job_state = JOB_COMPLETE | JOB_COMPLETING;
  add_user(job.record, users);
  job.record.user_id = 1002;
  job.record.job_state = JOB_COMPLETE;
  add_user(job.record, users);
  CHECK(users == std::map<std::string, std::set<uid_t>>{{"n1", {1000, 1001}}, {"n2", {1000, 1001}}});
}

TEST_CASE("a suspended job is told from one that runs") {
  Pending job;
  job.record.job_state = JOB_RUNNING;
  CHECK_FALSE(convert_job(job.record).suspended);
  job.record.job_state = JOB_SUSPENDED;
  CHECK(convert_job(job.record).suspended);
  CHECK(convert_job(job.record).state == SlurmJobState::running);
}

TEST_CASE("what users write into their requests costs a bounded time, and the first requests are understood") {
  PartitionNodes partitions{{{"main", {}}}, {"other"}};
  NodesForJobs::Sets types, features;
  for (int n = 0; n < 2000; ++n) {
    const std::string name = "n" + std::to_string(n);
    partitions.by_partition["main"].insert(name);
    types[name] = {n % 2 == 0 ? "h100" : "a100"};
    features[name] = {n % 3 == 0 ? "ib" : "eth"};
  }
  const std::map<std::string, Reservation> reservations;
  NodesForJobs nodes(partitions, types, features, reservations);
  Pending job;
  std::string gres = "gres:gpu:h100:2", constraint;
  job.record.tres_per_node = gres.data();
  std::size_t named = 0, narrowed = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3000; ++i) {
    constraint = "ib|x" + std::to_string(i);
    job.record.features = constraint.data();
    const NodeList those = nodes.without(job.record, {}).value();
    narrowed += those.size() < 2000;
    named += those.size() < 2000 ? those.size() : 0;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  MESSAGE("3,000 different constraints on 2,000 nodes: ", seconds, " s");
  CHECK(narrowed == NodesForJobs::kMostRequests);
  CHECK(named <= NodesForJobs::kMostNames + 2000);
  CHECK(seconds < 10);
}

TEST_CASE("waiting jobs that ask for the same share one list of nodes; those that exclude others do so up to a bound") {
  PartitionNodes partitions{{{"main", {}}}, {"other"}};
  const NodesForJobs::Sets none;
  for (int n = 0; n < 2000; ++n) partitions.by_partition["main"].insert("n" + std::to_string(n));
  const std::map<std::string, Reservation> reservations;
  NodesForJobs nodes(partitions, none, none, reservations);
  Pending job;
  const NodeList first = convert_waiting(job.record, nodes, false, 1010)->only_nodes;
  CHECK(first.size() == 2000);
  std::string excluded;
  int narrowed = 0;
  for (int i = 0; i < 1000; ++i) {
    CHECK(convert_waiting(job.record, nodes, false, 1010)->only_nodes.identity() == first.identity());
    Pending other;
    excluded = "n" + std::to_string(i);
    other.record.exc_nodes = excluded.data();
    narrowed += convert_waiting(other.record, nodes, false, 1010)->only_nodes.size() == 1999;
  }
  CHECK(narrowed == 100);  // 100 times 1,999 names; Slurm itself heeds the others
}

TEST_CASE("a list of too many nodes to exclude costs nobody else anything") {
  Pending job;
  std::string excluded;
  for (int i = 0; i < 9; ++i) excluded += std::string(i > 0 ? "," : "") + "n[1-16384]";
  job.record.exc_nodes = excluded.data();
  WaitingJob waiting;
  CHECK_NOTHROW(waiting = waiting_of(job.record, true, 1010));
  CHECK(waiting.id == 7);
}

TEST_CASE("the tasks that an array's record names, as Slurm writes them") {
  CHECK(named_tasks("0-99%5") == 100);
  CHECK(named_tasks("1,3,5-7:2") == 4);
  CHECK(named_tasks("7") == 1);
  CHECK(named_tasks("0-10:5%1") == 3);
  // Cut to 64 bytes: what is whole counts, and 2 may be the beginning of 20.
  CHECK(named_tasks("1,3,5,2...") == 3);
  CHECK(named_tasks("1,3,5-9,2...%4") == 7);
  CHECK(named_tasks("10...") == 0);
  CHECK(named_tasks("0-4000000000") == kMostArrayTasks);
  CHECK(named_tasks("0-3000,5000-8000") == kMostArrayTasks);
  for (const char* wrong : {"", "x", "3-1", "1-", "-1", "1-5:0", "1-5:-1", "1-5:2x", "99999999999999999999"})
    CHECK(named_tasks(wrong) == 0);
  CHECK(named_tasks("1,,2,x,4") == 3);
}

TEST_CASE("an array's record stands for as many waiting jobs as may start now") {
  Pending job;
  CHECK(waiting_of(job.record, false, 1001).tasks == 1);
  std::string tasks = "0-99";
  job.record.array_job_id = 7;
  job.record.array_task_id = NO_VAL;
  job.record.array_task_str = tasks.data();
  CHECK(waiting_of(job.record, false, 1001).tasks == 100);
  slurm_job_info_t task = job.record;  // one that runs has a record of its own
  set_id(task, 8);
  task.array_task_id = 3;
  task.array_task_str = nullptr;
  task.job_state = JOB_RUNNING;
  RunningTasks running;
  count_running(task, running);
  task.array_job_id = 9;  // another array's
  count_running(task, running);
  task.array_job_id = 7;
  task.job_state = JOB_RUNNING | JOB_COMPLETING;
  count_running(task, running);
  task.job_state = JOB_PENDING;
  count_running(task, running);
  count_running(job.record, running);
  CHECK(running == RunningTasks{{7, 1}, {9, 1}});
  CHECK(waiting_tasks(task, running) == 1);  // a task that was looked at, and waits on
  job.record.array_max_tasks = 5;
  CHECK(waiting_tasks(job.record, running) == 4);
  job.record.array_max_tasks = 200;
  CHECK(waiting_tasks(job.record, running) == 100);
  job.record.array_max_tasks = 1;
  CHECK(waiting_tasks(job.record, running) == 0);
  const PartitionNodes partitions;
  const std::map<std::string, Reservation> reservations;
  NodesForJobs nodes(partitions, {}, {}, reservations);
  CHECK(!convert_waiting(job.record, nodes, false, 1001, running));
  std::string cut = "1...";
  job.record.array_max_tasks = 0;
  job.record.array_task_str = cut.data();
  CHECK(waiting_tasks(job.record, running) == 1);  // it waits, so there is one
}
